package sessiondb

import (
	"context"
	"fmt"

	"gatewayd/internal/mutation"
	"gatewayd/internal/sqlite"
	"gatewayd/sessiondb/hermes"
)

const importMessage = `INSERT INTO messages(id, uid, session_id, origin_id, role, content, wire, tool_calls, tool_call_id, tool_name, effect,
 finish_reason, reasoning, kind, active, compacted, created_at) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

const importCounts = `UPDATE sessions SET last_active = max(last_active, ?2), preview = CASE WHEN preview = '' THEN ?3 ELSE preview END WHERE id = ?1`

// storeChunk stores rows and flags in one short transaction, with the session before its first. It stores nothing in a dry
// run.
func (m *movingSession) storeChunk(ctx context.Context, rows []*movingRow, flags []flagChange) error {
	m.o.New = m.o.New || !m.here.exists
	if m.opts.DryRun && !mutation.On("import-dry-run-writes") {
		return nil
	}
	var last int64
	err := m.s.file.Write(ctx, sqlite.Op{
		Label: "import messages", Patience: sqlite.Transcript,
		Do: func(tx *sqlite.Tx) (err error) {
			last, err = m.storeIn(tx, rows, flags)
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			now, err := readPresent(c, m.session.ID)
			return err == nil && now.exists && m.arrived(now, rows, flags), err
		},
	})
	if err != nil && !sqlite.IsCommitted(err) {
		return err
	}
	for _, row := range rows {
		if row.origin.row == row {
			row.origin.id, row.origin.row = row.id, nil
		}
	}
	m.here.exists, m.here.last = true, last
	m.s.work.added(len(rows))
	return err
}

// arrived settles a commit of unknown fate.
func (m *movingSession) arrived(now present, rows []*movingRow, flags []flagChange) bool {
	if len(rows) > 0 {
		for _, uid := range rows[len(rows)-1].uids {
			if _, ok := now.rows[uid]; ok {
				return true
			}
		}
		return false
	}
	for _, row := range now.rows {
		if len(flags) > 0 && row.id == flags[0].id {
			return row.active == flags[0].active && row.compacted == flags[0].compacted
		}
	}
	return true
}

// storeIn is the transaction. It may run more than once, so all that it remembers it sets anew.
func (m *movingSession) storeIn(tx *sqlite.Tx, rows []*movingRow, flags []flagChange) (last int64, err error) {
	if err := m.claim(tx); err != nil {
		return 0, err
	}
	for _, f := range flags {
		if _, err := tx.Exec(`UPDATE messages SET active = ?, compacted = ? WHERE id = ? AND session_id = ?`, f.active, f.compacted, f.id, m.session.ID); err != nil {
			return 0, fmt.Errorf("change flags: %w", err)
		}
	}
	last, preview, err := m.insertRows(tx, rows)
	if err != nil {
		return 0, err
	}
	if _, err := tx.Exec(importCounts, m.session.ID, m.lastActive(rows), preview); err != nil {
		return 0, err
	}
	return last, recount(tx, m.session.ID)
}

// claim makes the session, or proves that nobody wrote to it since it was looked at.
func (m *movingSession) claim(tx *sqlite.Tx) error {
	found, err := exists(tx.Conn, `SELECT 1 FROM sessions WHERE id = ?`, m.session.ID)
	if err != nil {
		return err
	}
	if !found {
		return insertForeignSession(tx, m.session)
	}
	var last *int64
	if _, err := tx.Row(`SELECT max(id) FROM messages WHERE session_id = ?`, []any{m.session.ID}, &last); err != nil {
		return err
	}
	held, err := heldBy(tx.Conn, m.session.ID)
	if err == nil && (held != "" || (last != nil && *last != m.here.last)) {
		err = errMeanwhile
	}
	return err
}

func (m *movingSession) insertRows(tx *sqlite.Tx, rows []*movingRow) (last int64, preview string, err error) {
	id, err := lastMessageID(tx.Conn)
	if err != nil {
		return 0, "", err
	}
	last = m.here.last
	for _, row := range rows {
		id++
		row.id, last = id, id
		uid, err := freeUID(tx, row.uids)
		if err != nil {
			return 0, "", err
		}
		origin := row.origin.id
		if row.origin.row != nil {
			origin = row.origin.row.id
		}
		if _, err := tx.Exec(importMessage, id, uid, m.session.ID, origin, row.Role, row.Content, null(row.Wire), null(row.ToolCalls), null(row.ToolCallID),
			null(row.ToolName), null(row.Effect), null(row.FinishReason), null(row.Reasoning), null(row.kind), row.Active, row.Compacted, row.At); err != nil {
			return 0, "", fmt.Errorf("insert message: %w", err)
		}
		if preview == "" && row.Role == "user" {
			preview = previewOf(row.Content)
		}
	}
	return last, preview, nil
}

// freeUID gives the first name that no row has. A message that was copied into another session kept its uid there.
func freeUID(tx *sqlite.Tx, uids []string) (string, error) {
	for _, uid := range uids[:len(uids)-1] {
		if taken, err := hasUID(tx.Conn, uid); err != nil || !taken {
			return uid, err
		}
	}
	return uids[len(uids)-1], nil
}

func (m *movingSession) lastActive(rows []*movingRow) int64 {
	at := max(m.session.LastActive, m.session.OpenedAt, 1)
	for _, row := range rows {
		at = max(at, row.At)
	}
	return at
}

// insertForeignSession makes the session. Routing is not brought along: who speaks here decides where it leads.
func insertForeignSession(tx *sqlite.Tx, h hermes.Session) error {
	opened := max(h.OpenedAt, 1)
	n := NewSession{ID: h.ID, Source: h.Source, Title: h.Title, Model: h.Model, Prompt: h.Prompt, Cwd: h.Cwd, Hidden: h.Hidden}
	if plainName(h.Key) {
		n.Key = h.Key
	}
	if found, err := exists(tx.Conn, `SELECT 1 FROM sessions WHERE id = ?`, h.Parent); err != nil {
		return err
	} else if found && h.Parent != h.ID {
		n.Parent = h.Parent
	}
	if err := insertSession(tx, n, opened); err != nil {
		return err
	}
	var ended, reason any
	if h.EndedAt > 0 {
		ended, reason = h.EndedAt, endReason(h)
	}
	_, err := tx.Exec(`UPDATE sessions SET ended_at = ?2, end_reason = ?3, archived = ?4, pinned = ?5, rewind_count = ?6, last_active = ?7 WHERE id = ?1`,
		h.ID, ended, reason, archivedOf(h), h.Pinned, h.Rewinds, max(h.LastActive, opened))
	return err
}

func archivedOf(h hermes.Session) int {
	switch {
	case h.AutoArchived:
		return 2
	case h.Archived:
		return 1
	}
	return 0
}

func endReason(h hermes.Session) string {
	if h.EndReason == "" {
		return EndClosed
	}
	return h.EndReason
}

// finish brings what belongs to the session as a whole: the session itself where it has no rows, its end and title where
// they came later, and its usage.
func (m *movingSession) finish(ctx context.Context) error {
	if !m.here.exists {
		if err := m.storeChunk(ctx, nil, nil); err != nil {
			return err
		}
	}
	m.noteParent(ctx)
	usage, warnings, err := m.src.Usage(ctx, m.session)
	if err != nil {
		return err
	}
	m.warn(warnings)
	if m.opts.DryRun {
		return nil
	}
	due, err := m.due(ctx, usage)
	if err != nil || !due {
		return err
	}
	return m.s.file.Write(ctx, sqlite.Op{
		Label: "import session", Patience: sqlite.Ordinary,
		Do:   func(tx *sqlite.Tx) error { return m.wholeIn(tx, usage) },
		Done: func(c *sqlite.Conn) (bool, error) { due, err := m.dueIn(c, usage); return !due, err },
	})
}
