package chamber

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gatewayd/internal/sqlite"
	"gatewayd/sessiondb"
)

// FoldAudit is what a fresh process finds in the conversations of the agents.
type FoldAudit struct {
	Turns    map[string]Turns `json:"turns"` // by conversation
	Findings []string         `json:"findings,omitempty"`
}

// Turns are the exchanges of one conversation.
type Turns struct {
	Acked     []string `json:"acked"`     // their tokens, in the order in which they were said
	Folded    int      `json:"folded"`    // of them: what was found and answered is history
	Whole     int      `json:"whole"`     // of them: live as they were said
	Flight    int      `json:"flight"`    // begun, never acknowledged
	Compacted int      `json:"compacted"` // rows
	Last      string   `json:"last"`      // "whole" or "folded": the newest that was acknowledged
}

func (r *FoldAudit) found(format string, args ...any) {
	if len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
	}
}

// foldsRole looks at every conversation that an agent's ledger names.
func foldsRole(ctx context.Context, a *Actor) (err error) {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	tokens, err := readLedgers(a.Ledgers(), OnFold)
	if err != nil {
		return err
	}
	r := FoldAudit{Turns: map[string]Turns{}}
	for _, session := range sessionsOf(tokens) {
		rows, err := allRows(ctx, s, session)
		if err != nil {
			return err
		}
		r.look(session, tokens, rows)
		if err := searched(ctx, s, &r, r.Turns[session]); err != nil {
			return err
		}
	}
	audit, err := sessiondb.Verify(ctx, s, sessiondb.VerifyOptions{Deep: true})
	if err != nil {
		return err
	}
	for _, f := range audit.Findings {
		if f.Level == sessiondb.Damage {
			r.found("%s", f)
		}
	}
	a.Say(Event{Event: "audited", Folds: &r})
	return nil
}

func sessionsOf(tokens map[string]entry) (names []string) {
	for _, e := range tokens {
		if !slices.Contains(names, e.session) {
			names = append(names, e.session)
		}
	}
	slices.Sort(names)
	return names
}

// standing is a row and what its flags say.
type standing struct {
	id                int64
	content           string
	active, compacted bool
}

// allRows reads the rows of a conversation whatever their flags, and that the counter is right, in one snapshot.
func allRows(ctx context.Context, s *sessiondb.Store, session string) (rows []standing, err error) {
	err = s.File().Read(ctx, func(c *sqlite.Conn) error {
		rows = nil
		live, counted := 0, 0
		for r, err := range c.Query(`SELECT id, content, active, compacted FROM messages WHERE session_id = ? ORDER BY id`, session) {
			if err != nil {
				return err
			}
			row := standing{r.Int(0), r.Text(1), r.Bool(2), r.Bool(3)}
			if rows = append(rows, row); row.active {
				live++
			}
		}
		if _, err := c.Row(`SELECT message_count FROM sessions WHERE id = ?`, []any{session}, &counted); err != nil {
			return err
		}
		if live != counted {
			return fmt.Errorf("%s has %d live rows and counts %d", session, live, counted)
		}
		return nil
	})
	return rows, err
}

// tally is where one text stands: how many rows hold it in each state.
type tally struct{ live, compacted int }

func where(rows []standing, text string) (t tally) {
	for _, r := range rows {
		n := strings.Count(r.content, text)
		switch {
		case r.active:
			t.live += n
		case r.compacted:
			t.compacted += n
		}
	}
	return t
}

// look holds the rows of a conversation against its ledger. What was asked is live exactly once. What was found and what
// was answered are live once, or history once and not live: both together, since they are folded together.
func (r *FoldAudit) look(session string, tokens map[string]entry, rows []standing) {
	out := Turns{}
	first := map[string]int64{}
	for token, e := range tokens {
		if e.session != session {
			continue
		}
		if !e.acked {
			out.Flight++
			if t := where(rows, token+"Q"); t.live > 1 {
				r.found("%sQ was never acknowledged and is live %dx", token, t.live)
			}
			continue
		}
		out.Acked = append(out.Acked, token)
		first[token] = firstRow(rows, token+"Q")
	}
	slices.SortFunc(out.Acked, func(a, b string) int { return int(first[a] - first[b]) })
	for _, token := range out.Acked {
		if out.Last = r.exchange(rows, token); out.Last == "folded" {
			out.Folded++
		} else {
			out.Whole++
		}
	}
	for _, row := range rows {
		if row.compacted {
			out.Compacted++
		}
	}
	r.Turns[session] = out
}

func firstRow(rows []standing, text string) int64 {
	i := slices.IndexFunc(rows, func(r standing) bool { return strings.Contains(r.content, text) })
	if i < 0 {
		return 0
	}
	return rows[i].id
}

func (r *FoldAudit) exchange(rows []standing, token string) string {
	q, t, a := where(rows, token+"Q"), where(rows, token+"T"), where(rows, token+"A")
	if q.live != 1 {
		r.found("%sQ is live %dx instead of once", token, q.live)
	}
	folded := t.live == 0
	want := tally{live: 1}
	if folded {
		want = tally{compacted: 1}
	}
	for what, got := range map[string]tally{"T": t, "A": a} {
		if got != want {
			r.found("%s%s is live %dx and history %dx", token, what, got.live, got.compacted)
		}
	}
	if folded {
		return "folded"
	}
	return "whole"
}

// searched looks for what was said as a person would: everything is found once, wherever it stands.
func searched(ctx context.Context, s *sessiondb.Store, r *FoldAudit, t Turns) error {
	if err := s.WaitIndexed(ctx); err != nil {
		return err
	}
	for _, token := range t.Acked {
		for _, part := range []string{"Q", "T", "A"} {
			hits, err := s.Search(ctx, sessiondb.Query{Text: token + part, Limit: 5})
			if err != nil {
				return err
			}
			if len(hits) != 1 {
				r.found("%s%s is found %dx", token, part, len(hits))
			}
		}
	}
	return nil
}

// censusRole says in one word how a conversation stands: every row with its flags, and the counter.
func censusRole(ctx context.Context, a *Actor) (err error) {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	rows, err := allRows(ctx, s, a.Session)
	if err != nil {
		return err
	}
	held, err := s.Leases(ctx)
	if err != nil {
		return err
	}
	var kinds []string
	for _, l := range held {
		if l.Session == a.Session {
			kinds = append(kinds, string(l.Kind))
		}
	}
	var text strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&text, "%d %v %v %d\n", row.id, row.active, row.compacted, len(row.content))
	}
	slices.Sort(kinds)
	a.Say(Event{Event: "counted", Count: len(rows), Text: text.String(), Class: strings.Join(kinds, " ")})
	return nil
}
