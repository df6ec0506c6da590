package sessiondb

import (
	"context"
	"errors"
	"fmt"

	"gatewayd/internal/mutation"
	"gatewayd/internal/sqlite"
)

// dropSaid takes messages out of the inbox whose rows came back: they are said.
const dropSaid = `DELETE FROM inbox WHERE EXISTS (SELECT 1 FROM messages m WHERE m.uid = inbox.uid)`

// waiting brings back what was accepted and lost with the log: messages that are neither rows nor in the inbox here, in their
// order. A message that was withdrawn in what was lost is in the inbox again; to say it is better than to lose one.
func (sv *salvage) waiting(ctx context.Context) error {
	captured, err := sv.from.Inbox(ctx, "")
	if err != nil {
		return err
	}
	var lost []Waiting
	err = sv.s.file.Read(ctx, func(c *sqlite.Conn) error {
		lost, err = lostMessages(c, captured)
		return err
	})
	sv.out.Inbox = len(lost)
	if err != nil || sv.out.DryRun || mutation.On("salvage-without-inbox") {
		return err
	}
	err = sv.s.file.Write(ctx, sqlite.Op{
		Label: "salvage inbox", Patience: sqlite.Transcript,
		Do: func(tx *sqlite.Tx) error {
			if lost, err = lostMessages(tx.Conn, captured); err != nil {
				return err
			}
			for _, w := range lost {
				if _, err := tx.Exec(putInbox, w.UID, w.Session, string(w.Mode), w.Source, w.Dir, w.Content, null(w.Wire), stampOr(w.CreatedAt, 1)); err != nil {
					return fmt.Errorf("message %s: %w", w.UID, err)
				}
			}
			_, err := tx.Exec(dropSaid)
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			left, err := lostMessages(c, captured)
			return len(left) == 0, err
		},
	})
	if err == nil || sqlite.IsCommitted(err) {
		sv.out.Inbox = len(lost)
		return nil
	}
	return fmt.Errorf("inbox: %w", err)
}

// lostMessages are those whose session is here, and which are not.
func lostMessages(c *sqlite.Conn, captured []Waiting) (lost []Waiting, err error) {
	for _, w := range captured {
		here, err := exists(c, `SELECT 1 FROM sessions WHERE id = ?`, w.Session)
		said, err2 := hasUID(c, w.UID)
		waits, err3 := exists(c, `SELECT 1 FROM inbox WHERE uid = ?`, w.UID)
		if err := errors.Join(err, err2, err3); err != nil {
			return nil, err
		}
		if here && !said && !waits {
			lost = append(lost, w)
		}
	}
	return lost, nil
}

// pending brings back the turns that were under way when the log was lost, so that one that was cut off is known at the next
// start. Whether such a turn has ended since, its rows tell.
func (sv *salvage) pending(ctx context.Context) error {
	captured, err := sv.from.Pendings(ctx)
	if err != nil || len(captured) == 0 {
		return err
	}
	var lost []Pending
	err = sv.s.file.Write(ctx, sqlite.Op{
		Label: "salvage turns", Patience: sqlite.Transcript,
		Do: func(tx *sqlite.Tx) error {
			if lost, err = lostTurns(tx.Conn, captured); err != nil {
				return err
			}
			for _, p := range lost {
				if _, err := tx.Exec(`INSERT INTO turns(`+turnColumns+`) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, p.Session, p.Turn, p.UserUID, p.Source, p.Dir,
					p.Detached, p.Attempts, p.Mark, stampOr(p.BeganAt, 1), stampOr(p.TriedAt, 1)); err != nil {
					return fmt.Errorf("turn %s: %w", p.Turn, err)
				}
			}
			return nil
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			left, err := lostTurns(c, captured)
			return len(left) == 0, err
		},
	})
	if err == nil || sqlite.IsCommitted(err) {
		sv.out.Turns = len(lost)
		return nil
	}
	return fmt.Errorf("turns: %w", err)
}

// lostTurns are those whose user row is here and in whose session no turn is known.
func lostTurns(c *sqlite.Conn, captured []Pending) (lost []Pending, err error) {
	for _, p := range captured {
		said, err := exists(c, `SELECT 1 FROM messages WHERE uid = ? AND session_id = ?`, p.UserUID, p.Session)
		known, err2 := exists(c, `SELECT 1 FROM turns WHERE session_id = ?`, p.Session)
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		if said && !known {
			lost = append(lost, p)
		}
	}
	return lost, nil
}
