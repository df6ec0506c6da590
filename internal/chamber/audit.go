package chamber

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
	"gatewayd/sessiondb"
)

// Audit is what a fresh process finds in the files, compared with what the ledgers say.
type Audit struct {
	Mode     string            `json:"mode"`   // of state.db
	Rows     int               `json:"rows"`   // with a token
	Acked    int               `json:"acked"`  // tokens that were acknowledged
	Flight   int               `json:"flight"` // intended, never acknowledged: in once or not at all
	Searched int               `json:"searched"`
	Sessions map[string]Sample `json:"sessions,omitempty"`
	Board    bool              `json:"board,omitempty"` // there is one, and it was looked at
	Cards    int               `json:"cards,omitempty"` // acknowledged tokens of it
	Findings []string          `json:"findings,omitempty"`
}

// maxFindings keeps a broken store from filling the screen; the rest is a number.
const maxFindings = 20

func (r *Audit) found(format string, args ...any) {
	if len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
	}
}

// auditRole runs once and says what it found.
func auditRole(ctx context.Context, a *Actor) error {
	r := Audit{}
	if err := a.auditStore(ctx, &r); err != nil {
		return err
	}
	if _, err := os.Stat(a.BoardPath()); err == nil {
		if err := a.auditBoard(ctx, &r); err != nil {
			return err
		}
	}
	a.Say(Event{Event: "audited", Audit: &r})
	return nil
}

func (a *Actor) auditStore(ctx context.Context, r *Audit) (err error) {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r.Mode = s.File().Journal().Mode
	if err := s.WaitIndexed(ctx); err != nil {
		return err
	}
	if err := whole(ctx, s.File(), r); err != nil {
		return err
	}
	if r.Sessions, err = counts(ctx, s); err != nil {
		return err
	}
	tokens, err := readLedgers(a.Ledgers(), OnStore)
	if err != nil {
		return err
	}
	rows, err := tokensIn(ctx, s.File(), `SELECT session_id, content FROM messages`)
	if err != nil {
		return err
	}
	r.Rows = len(rows)
	r.Acked, r.Flight = compare(r, tokens, rows)
	if err := a.auditIndexes(ctx, s, r); err != nil {
		return err
	}
	if err := a.auditSearch(ctx, s, r, tokens); err != nil {
		return err
	}
	if a.Parted {
		return nil
	}
	return verified(ctx, s, r)
}

// verified asks the store's own audit. What it merely notes is no finding: a killed turn leaves an open call behind.
// Where rows were salvaged into conversations that had gone on, it is not asked: those come behind the newer ones, so
// calls and results no longer stand together, and that is said where a salvage is described.
func verified(ctx context.Context, s *sessiondb.Store, r *Audit) error {
	v, err := sessiondb.Verify(ctx, s, sessiondb.VerifyOptions{RowsOnly: true})
	for _, f := range v.Findings {
		if f.Level == sessiondb.Damage {
			r.found("verify: %s", f)
		}
	}
	return err
}

// whole asks SQLite itself.
func whole(ctx context.Context, f *sqlite.File, r *Audit) error {
	return f.Read(ctx, func(c *sqlite.Conn) error {
		for row, err := range c.Query("PRAGMA integrity_check(5)") {
			if err != nil {
				return err
			}
			if text := row.Text(0); text != "ok" {
				r.found("integrity of %s: %s", f.Path(), text)
			}
		}
		for row, err := range c.Query("PRAGMA foreign_key_check") {
			if err != nil {
				return err
			}
			r.found("a row of %s points nowhere", row.Text(0))
		}
		return nil
	})
}

// place is where a token stands: how often, and in which session.
type place struct {
	session string
	times   int
}

// tokensIn reads the token at the start of each text.
func tokensIn(ctx context.Context, f *sqlite.File, query string) (map[string]place, error) {
	var out map[string]place
	err := f.Read(ctx, func(c *sqlite.Conn) error {
		out = map[string]place{}
		for row, err := range c.Query(query) {
			if err != nil {
				return err
			}
			if word := token(row.Text(1)); word != "" {
				p := out[word]
				out[word] = place{session: row.Text(0), times: p.times + 1}
			}
		}
		return nil
	})
	return out, err
}

// token is the word at the start of a text that a ledger knows, or nothing.
func token(text string) string {
	word, _, _ := strings.Cut(text, " ")
	if strings.HasPrefix(word, "TK") {
		return word
	}
	return ""
}

// compare holds the rows against the ledgers: exactly once for what was acknowledged, at most once for what was on its
// way, never what nobody intended.
func compare(r *Audit, tokens map[string]entry, rows map[string]place) (acked, flight int) {
	for word, e := range tokens {
		p := rows[word]
		switch {
		case e.acked && p.times != 1:
			r.found("acknowledged row %s is stored %dx", word, p.times)
		case p.times > 1:
			r.found("row %s, never acknowledged, is stored %dx", word, p.times)
		case p.times == 1 && p.session != e.session:
			r.found("row %s stands in %s instead of %s", word, p.session, e.session)
		}
		if e.acked {
			acked++
		} else {
			flight++
		}
	}
	for word := range rows {
		if _, ok := tokens[word]; !ok {
			r.found("row %s was never intended", word)
		}
	}
	return acked, flight
}

// searchIndexes are the two and what must be true of each. The view ends at the index's own mark.
var searchIndexes = [...]struct{ table, view, mark, stale string }{
	{"messages_fts", "messages_fts_rows", "fts_mark", "fts_stale"},
	{"messages_tri", "messages_tri_rows", "tri_mark", "tri_stale"},
}

// auditIndexes: the marks have reached the last row, the index holds as many rows as its view, and agrees with them.
func (a *Actor) auditIndexes(ctx context.Context, s *sessiondb.Store, r *Audit) error {
	for _, ix := range searchIndexes {
		var mark, last, held, should int64
		stale := false
		err := s.File().Read(ctx, func(c *sqlite.Conn) error {
			_, err := c.Row(`SELECT (SELECT v FROM meta WHERE k = ?1), (SELECT coalesce(max(id), 0) FROM messages),
 (SELECT count(*) FROM `+ix.table+`_docsize), (SELECT count(*) FROM `+ix.view+`), EXISTS(SELECT 1 FROM meta WHERE k = ?2)`,
				[]any{ix.mark, ix.stale}, &mark, &last, &held, &should, &stale)
			return err
		})
		if err != nil {
			return err
		}
		if stale || mark != last || held != should {
			r.found("index %s: stale %v, mark %d of %d, %d rows of %d", ix.table, stale, mark, last, held, should)
		}
		err = s.File().Write(ctx, sqlite.Op{Label: "check index", Do: func(tx *sqlite.Tx) error {
			_, err := tx.Exec(fmt.Sprintf(`INSERT INTO %[1]s(%[1]s, rank) VALUES('integrity-check', 1)`, ix.table))
			return err
		}})
		if err != nil {
			r.found("index %s: %v", ix.table, err)
		}
	}
	return nil
}

// sampled tokens are looked for as a person would.
const sampled = 12

func (a *Actor) auditSearch(ctx context.Context, s *sessiondb.Store, r *Audit, tokens map[string]entry) error {
	var acked []string
	for word, e := range tokens {
		if e.acked {
			acked = append(acked, word)
		}
	}
	slices.Sort(acked)
	rand.New(rand.NewPCG(a.Seed, sampled)).Shuffle(len(acked), func(i, j int) { acked[i], acked[j] = acked[j], acked[i] })
	for _, word := range acked[:min(sampled, len(acked))] {
		hits, err := s.Search(ctx, sessiondb.Query{Text: word, Limit: 3})
		if err != nil {
			return err
		}
		if len(hits) != 1 {
			r.found("acknowledged row %s is found %dx by a search", word, len(hits))
		}
		r.Searched++
	}
	return nil
}

func (a *Actor) auditBoard(ctx context.Context, r *Audit) (err error) {
	b, err := kanban.Open(ctx, kanban.Options{Path: a.BoardPath()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	r.Board = true
	if mode := b.File().Journal().Mode; mode != r.Mode {
		r.found("the board is in journal mode %s, the store in %s", mode, r.Mode)
	}
	if err := whole(ctx, b.File(), r); err != nil {
		return err
	}
	tokens, err := readLedgers(a.Ledgers(), OnBoard)
	if err != nil {
		return err
	}
	rows, err := tokensIn(ctx, b.File(), `SELECT 'cards', title FROM tasks UNION ALL SELECT 'comments', body FROM task_comments`)
	if err != nil {
		return err
	}
	r.Cards, _ = compare(r, tokens, rows)
	return nil
}
