package sessiondb

import (
	"context"
	"fmt"
	"math"

	"gatewayd/internal/mutation"
	"gatewayd/internal/sqlite"
)

// captured is one session as the capture has it.
type captured struct {
	Session
	rewinds int64
	prompt  string
	rows    []Message // all of them, by id
	usage   []capturedUsage
	folds   map[int64]string // by the id of the summary: uids that it stands for
}

type capturedUsage struct {
	model, provider, task, ref string
	counts                     Counts
	first, last                int64
}

// missing is what a session of the store lacks.
type missing struct {
	busy, parted, session, prompt bool
	deleted                       bool
	ended, titled                 bool // the capture knows its end, or its title
	rows                          []Message
	changed                       []Message       // with the id that the row has here
	ids                           map[int64]int64 // captured id → id here
	live                          map[int64]bool  // logical messages, by origin, that have a live row here
	usage                         []capturedUsage
}

func (m missing) nothing() bool {
	return !m.session && !m.prompt && !m.ended && !m.titled && len(m.rows)+len(m.changed)+len(m.usage) == 0
}

const usageColumns = `model, provider, task, calls, prompt, completion, cached, cache_write, reasoning, last_ref, first_at, last_at`

// read takes a whole session out of the capture.
func (sv *salvage) read(ctx context.Context, id string) (out captured, err error) {
	err = sv.from.file.Read(ctx, func(c *sqlite.Conn) error {
		out = captured{folds: map[int64]string{}}
		if out.Session, _, err = sv.from.querySession(c, `SELECT `+sessionColumns+` FROM sessions WHERE id = ?`, id); err != nil {
			return err
		}
		if _, err := c.Row(`SELECT rewind_count FROM sessions WHERE id = ?`, []any{id}, &out.rewinds); err != nil {
			return err
		}
		if _, err := c.Row(`SELECT body FROM prompts WHERE hash = ?`, []any{out.PromptHash}, &out.prompt); err != nil {
			return err
		}
		if out.rows, err = sv.from.queryMessages(c, nil, selectAll, id, int64(0), int64(math.MaxInt64)); err != nil {
			return err
		}
		if out.usage, err = readUsage(c, id); err != nil {
			return err
		}
		for r, err := range c.Query(`SELECT summary, absorbed FROM folds WHERE session_id = ?`, id) {
			if err != nil {
				return err
			}
			out.folds[r.Int(0)] = r.Text(1)
		}
		return nil
	})
	return out, err
}

func readUsage(c *sqlite.Conn, session string) (out []capturedUsage, err error) {
	for r, err := range c.Query(`SELECT `+usageColumns+` FROM usage WHERE session_id = ?`, session) {
		if err != nil {
			return nil, err
		}
		out = append(out, capturedUsage{
			model: r.Text(0), provider: r.Text(1), task: r.Text(2), ref: r.Text(9), first: r.Int(10), last: r.Int(11),
			counts: Counts{Calls: r.Int(3), Prompt: r.Int(4), Completion: r.Int(5), Cached: r.Int(6), CacheWrite: r.Int(7), Reasoning: r.Int(8)},
		})
	}
	return out, nil
}

// compare finds what the store lacks of a captured session. A session that has rows which the capture does not know was
// written after the loss: there only rows are added and nothing is changed.
func (sv *salvage) compare(c *sqlite.Conn, old captured) (m missing, err error) {
	m = missing{ids: map[int64]int64{}, live: map[int64]bool{}}
	now, found, err := sv.s.querySession(c, `SELECT `+sessionColumns+` FROM sessions WHERE id = ?`, old.ID)
	if err != nil {
		return m, err
	}
	if !found {
		if m.deleted, err = buried(c, old.ID); err != nil || m.deleted {
			return m, err
		}
	}
	m.session = !found
	if m.prompt = old.prompt != ""; m.prompt {
		has, err := exists(c, `SELECT 1 FROM prompts WHERE hash = ?`, old.PromptHash)
		if err != nil {
			return m, err
		}
		m.prompt = !has
	}
	if m.busy, err = sv.isBusy(c, old.ID); err != nil {
		return m, err
	}
	if err := sv.compareRows(c, old, &m); err != nil {
		return m, err
	}
	if found && !m.parted {
		m.ended = old.EndedAt != nil && now.EndedAt == nil
		m.titled = old.Title != "" && now.Title == ""
	}
	return m, sv.compareUsage(c, old, &m)
}

func (sv *salvage) isBusy(c *sqlite.Conn, session string) (bool, error) {
	held, found, err := readLease(c, session, Turn)
	if err != nil || !found {
		return false, err
	}
	return held.alive() && (sv.own.PID == 0 || held.Holder.Identity != sv.own.Identity), nil
}

func (sv *salvage) compareRows(c *sqlite.Conn, old captured, m *missing) error {
	here := map[string]Message{}
	rows, err := sv.s.queryMessages(c, nil, selectAll, old.ID, int64(0), int64(math.MaxInt64))
	if err != nil {
		return err
	}
	for _, row := range rows {
		here[row.UID] = row
		m.live[row.OriginID] = m.live[row.OriginID] || row.Active
	}
	known := 0
	for _, row := range old.rows {
		have, ok := here[row.UID]
		if mutation.On("salvage-without-diff") {
			have, ok, row.UID = Message{}, false, newUID(row.CreatedAt)
		}
		if ok {
			known++
			m.ids[row.ID] = have.ID
			if have.Digest() != row.Digest() {
				row.ID = have.ID
				m.changed = append(m.changed, row)
			}
			continue
		}
		if moved, err := hasUID(c, row.UID); err != nil || moved {
			if err != nil {
				return err
			}
			continue // the row lives in another session by now
		}
		m.rows = append(m.rows, row)
	}
	if m.parted = known < len(rows); m.parted {
		m.changed = nil
	}
	return nil
}

// compareUsage keeps the sums of the capture that are greater than those here. Sums only grow, and nobody can tell which
// calls both have counted: the greater of two counts is what was certainly used, and counts nothing twice.
func (sv *salvage) compareUsage(c *sqlite.Conn, old captured, m *missing) error {
	here := map[[3]string]Counts{}
	sums, err := readUsage(c, old.ID)
	if err != nil {
		return err
	}
	for _, u := range sums {
		here[[3]string{u.model, u.provider, u.task}] = u.counts
	}
	for _, u := range old.usage {
		have, ok := here[[3]string{u.model, u.provider, u.task}]
		if most := have.most(u.counts); !ok || most != have {
			u.counts = most
			m.usage = append(m.usage, u)
		}
	}
	return nil
}

func (c Counts) most(d Counts) Counts {
	return Counts{
		Calls: max(c.Calls, d.Calls), Prompt: max(c.Prompt, d.Prompt), Completion: max(c.Completion, d.Completion),
		Cached: max(c.Cached, d.Cached), CacheWrite: max(c.CacheWrite, d.CacheWrite), Reasoning: max(c.Reasoning, d.Reasoning),
	}
}

// bring writes what is missing.
func (sv *salvage) bring(tx *sqlite.Tx, old captured, m *missing) error {
	if err := sv.bringSession(tx, old, m); err != nil {
		return err
	}
	for _, row := range m.changed {
		if err := sv.change(tx, old, row, m); err != nil {
			return fmt.Errorf("row %s: %w", row.UID, err)
		}
	}
	if err := sv.bringRows(tx, old, m); err != nil {
		return err
	}
	for _, u := range m.usage {
		n := u.counts
		if _, err := tx.Exec(`INSERT INTO usage(session_id, `+usageColumns+`) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
 ON CONFLICT(session_id, model, provider, task) DO UPDATE SET calls = ?5, prompt = ?6, completion = ?7, cached = ?8, cache_write = ?9, reasoning = ?10,
 last_ref = CASE WHEN ?13 > last_at THEN ?11 ELSE last_ref END, first_at = min(first_at, ?12), last_at = max(last_at, ?13)`,
			old.ID, u.model, u.provider, u.task, n.Calls, n.Prompt, n.Completion, n.Cached, n.CacheWrite, n.Reasoning, u.ref, u.first, u.last); err != nil {
			return fmt.Errorf("usage: %w", err)
		}
	}
	return recount(tx, old.ID)
}

func (sv *salvage) bringSession(tx *sqlite.Tx, old captured, m *missing) error {
	opened := stampOr(old.OpenedAt, stampOr(old.LastActive, 1))
	if m.prompt {
		if _, err := tx.Exec(`INSERT OR IGNORE INTO prompts(hash, body, created_at) VALUES(?, ?, ?)`, old.PromptHash, old.prompt, opened); err != nil {
			return err
		}
	}
	if m.session {
		n := old.asNew()
		n.Prompt = old.prompt
		if found, err := exists(tx.Conn, `SELECT 1 FROM sessions WHERE id = ?`, n.Parent); err != nil {
			return err
		} else if !found {
			n.Parent = ""
		}
		if err := insertSession(tx, n, opened); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE sessions SET archived = ?, pinned = ?, rewind_count = ?, preview = ?, last_active = ? WHERE id = ?`,
			old.Archived, old.Pinned, old.rewinds, old.Preview, stampOr(old.LastActive, opened), old.ID); err != nil {
			return err
		}
		if n.Key != "" {
			if _, err := tx.Exec(`INSERT OR IGNORE INTO routes(key, session_id, updated_at) VALUES(?, ?, ?)`, n.Key, n.ID, opened); err != nil {
				return err
			}
		}
	}
	if old.EndedAt != nil && (m.session || m.ended) {
		if _, err := tx.Exec(`UPDATE sessions SET ended_at = ?, end_reason = ? WHERE id = ? AND ended_at IS NULL`, stampOr(*old.EndedAt, opened), old.EndReason, old.ID); err != nil {
			return err
		}
	}
	if m.titled {
		if _, err := tx.Exec(`UPDATE sessions SET title = ? WHERE id = ?`, old.Title, old.ID); err != nil {
			return err
		}
	}
	return nil
}

// bringRows inserts rows in their order, each at its old id or behind everything that is there.
func (sv *salvage) bringRows(tx *sqlite.Tx, old captured, m *missing) error {
	var last int64
	if _, err := tx.Row(`SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'messages'`, nil, &last); err != nil {
		return err
	}
	for _, row := range m.rows {
		last = max(row.ID, last+1)
		m.ids[row.ID] = last
		origin, ok := m.ids[row.OriginID]
		if !ok {
			origin = last
		}
		active, compacted := m.flags(row, origin)
		if _, err := tx.Exec(`INSERT INTO messages(`+messageColumns+`, session_id)
 VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)`, last, row.UID, null(row.TurnID), origin, row.Role, row.Content,
			null(row.Wire), null(string(row.ToolCalls)), null(row.ToolCallID), null(row.ToolName), null(row.Effect), null(row.FinishReason),
			null(row.Reasoning), null(row.Kind), active, compacted, stampOr(row.CreatedAt, stampOr(old.LastActive, 1)), old.ID); err != nil {
			return fmt.Errorf("row %s: %w", row.UID, err)
		}
		if absorbed, ok := old.folds[row.ID]; ok {
			if err := addFold(tx, last, old.ID, absorbed, row); err != nil {
				return err
			}
		}
	}
	if len(m.rows) == 0 {
		return nil
	}
	at := stampOr(m.rows[len(m.rows)-1].CreatedAt, 1)
	preview := ""
	for _, row := range m.rows {
		if preview == "" && row.Role == "user" {
			preview = previewOf(row.Content)
		}
	}
	_, err := tx.Exec(countRows, old.ID, 0, at, maxStamp, preview)
	return err
}

func addFold(tx *sqlite.Tx, id int64, session, absorbed string, row Message) error {
	_, err := tx.Exec(`INSERT OR IGNORE INTO folds(summary, session_id, absorbed, created_at) VALUES(?, ?, ?, ?)`, id, session, absorbed, stampOr(row.CreatedAt, 1))
	return err
}

// flags are what a row is here. Where the session went on without it, the compaction that it was part of did not happen: a
// second row of a message that is live is superseded, and so is a summary, and what that folded away is live.
func (m *missing) flags(row Message, origin int64) (active, compacted bool) {
	if !m.parted {
		return row.Active, row.Compacted
	}
	if row.Kind == KindSummary || row.Kind == KindModelOnly || m.live[origin] {
		return false, false
	}
	m.live[origin] = m.live[origin] || row.Active || row.Compacted
	return row.Active || row.Compacted, false
}

// change gives a row the state that it had in the capture.
func (sv *salvage) change(tx *sqlite.Tx, old captured, row Message, m *missing) error {
	have, err := sv.s.messageByID(tx.Conn, old.ID, row.ID)
	if err != nil {
		return err
	}
	edited := have.Content != row.Content
	if edited {
		if err := forget(tx, row.ID); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(`UPDATE messages SET compacted = ?, active = ?, content = ?, wire = ?, tool_calls = ?, effect = ?, finish_reason = ?, kind = ? WHERE id = ?`,
		row.Compacted, row.Active, row.Content, null(row.Wire), null(string(row.ToolCalls)), null(row.Effect), null(row.FinishReason), null(row.Kind), row.ID); err != nil {
		return err
	}
	if edited {
		return learn(tx, row.ID)
	}
	return nil
}
