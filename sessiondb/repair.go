package sessiondb

import (
	"context"
	"encoding/json"
	"fmt"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// RowRepair changes one live row, or adds one. A change names the row by ID and the state that the caller decided upon
// by OldDigest (Message.Digest); fields that are nil stay. Drop supersedes the row. With Insert set it is a new row
// instead, written after the changes.
type RowRepair struct {
	ID           int64
	OldDigest    string
	Content      *string
	Wire         *string
	ToolCalls    *json.RawMessage
	Effect       *string
	FinishReason *string
	Kind         *string
	Drop         bool
	Insert       *NewMessage
}

// Repair writes what a resume decided, all of it or nothing: when one row is no longer what the caller saw, the error
// is ErrRowChanged and the caller decides anew from the rows.
func (s *Store) Repair(ctx context.Context, l Lease, repairs []RowRepair) error {
	changes, inserts, err := s.sortRepairs(l.Session, repairs)
	if err != nil || len(changes)+len(inserts) == 0 {
		return err
	}
	write := func() error {
		return s.file.Write(ctx, sqlite.Op{
			Label: "repair messages", Patience: sqlite.Transcript,
			Do:   func(tx *sqlite.Tx) error { return s.repair(tx, l, changes, inserts) },
			Done: func(c *sqlite.Conn) (bool, error) { return s.repaired(c, l.Session, changes, inserts) },
		})
	}
	err = s.withoutDamagedIndex(ctx, write)
	if err == nil || sqlite.IsCommitted(err) {
		s.edits.Add(1)
		s.work.added(len(inserts))
	}
	return err
}

func (s *Store) sortRepairs(session string, repairs []RowRepair) (changes []RowRepair, inserts []NewMessage, err error) {
	for _, r := range repairs {
		if r.Insert != nil {
			inserts = append(inserts, *r.Insert)
		} else {
			changes = append(changes, r)
		}
	}
	if len(inserts) > 0 {
		inserts, err = s.prepare(session, inserts)
	}
	return changes, inserts, err
}

func (s *Store) repair(tx *sqlite.Tx, l Lease, changes []RowRepair, inserts []NewMessage) error {
	if err := verify(tx, l); err != nil {
		return err
	}
	for _, r := range changes {
		if err := s.change(tx, l.Session, r); err != nil {
			return err
		}
	}
	if len(inserts) > 0 {
		if _, err := insertMessages(tx, l.Session, inserts); err != nil {
			return err
		}
	}
	return recount(tx, l.Session)
}

func (s *Store) change(tx *sqlite.Tx, session string, r RowRepair) error {
	old, err := s.messageByID(tx.Conn, session, r.ID)
	if err != nil {
		return err
	}
	if old.ID == 0 || old.Digest() != r.OldDigest {
		return &problem.Error{
			Kind: problem.Conflict, Thing: fmt.Sprintf("message %d of session %s", r.ID, session), What: "is no longer what it was",
			Fate: "nothing was changed", Remedy: "read the conversation again", Err: mark{ErrRowChanged},
		}
	}
	next := r.apply(old)
	if next.Content == old.Content {
		return update(tx, next)
	}
	if err := forget(tx, old.ID); err != nil {
		return err
	}
	if err := update(tx, next); err != nil {
		return err
	}
	return learn(tx, old.ID)
}

func update(tx *sqlite.Tx, m Message) error {
	_, err := tx.Exec(`UPDATE messages SET content = ?, wire = ?, tool_calls = ?, effect = ?, finish_reason = ?, kind = ?, active = ? WHERE id = ?`,
		m.Content, null(m.Wire), null(string(m.ToolCalls)), null(m.Effect), null(m.FinishReason), null(m.Kind), m.Active, m.ID)
	return err
}

// apply is the row as it shall be.
func (r RowRepair) apply(m Message) Message {
	n := NewMessage{Content: m.Content, Wire: m.Wire, ToolCalls: m.ToolCalls, Effect: m.Effect, FinishReason: m.FinishReason, Kind: m.Kind}
	for _, f := range []struct{ from, to *string }{
		{r.Content, &n.Content}, {r.Wire, &n.Wire}, {r.Effect, &n.Effect}, {r.FinishReason, &n.FinishReason}, {r.Kind, &n.Kind},
	} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	if r.ToolCalls != nil {
		n.ToolCalls = *r.ToolCalls
	}
	n = n.scrub()
	m.Content, m.Wire, m.ToolCalls, m.Effect, m.FinishReason, m.Kind = n.Content, n.Wire, n.ToolCalls, n.Effect, n.FinishReason, n.Kind
	m.Active = m.Active && !r.Drop
	return m
}

// repaired settles a commit of unknown fate: an inserted row is there, or a changed one is no longer as it was.
func (s *Store) repaired(c *sqlite.Conn, session string, changes []RowRepair, inserts []NewMessage) (bool, error) {
	if len(inserts) > 0 {
		return hasUID(c, inserts[0].UID)
	}
	for _, r := range changes {
		now, err := s.messageByID(c, session, r.ID)
		if err != nil || now.Digest() != r.OldDigest {
			return err == nil, err
		}
	}
	return false, nil
}

func (s *Store) messageByID(c *sqlite.Conn, session string, id int64) (Message, error) {
	got, err := s.queryMessages(c, nil, `SELECT `+messageColumns+` FROM messages WHERE session_id = ? AND id = ?`, session, id)
	if err != nil || len(got) == 0 {
		return Message{}, err
	}
	return got[0], nil
}

// recountAll is recount for every session whose counter is wrong.
func recountAll(tx *sqlite.Tx) error {
	_, err := tx.Exec(`UPDATE sessions SET message_count = live.n FROM
 (SELECT s.id, (SELECT count(*) FROM messages m WHERE m.session_id = s.id AND m.active = 1 AND m.compacted = 0) AS n FROM sessions s) AS live
 WHERE live.id = sessions.id AND message_count <> live.n`)
	if err != nil {
		return fmt.Errorf("recount messages: %w", err)
	}
	return nil
}

// recount sets the counter from the rows, after flags changed.
func recount(tx *sqlite.Tx, session string) error {
	_, err := tx.Exec(`UPDATE sessions SET message_count =
 (SELECT count(*) FROM messages WHERE session_id = ?1 AND active = 1 AND compacted = 0) WHERE id = ?1`, session)
	return err
}
