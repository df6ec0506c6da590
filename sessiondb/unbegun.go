package sessiondb

import (
	"context"
	"fmt"
	"time"

	"gatewayd/internal/sqlite"
)

// foundingTurn stands in the place of the first turn of a session that was made for a message, until that one begins (Begin) or is accepted
// as a run (Accept).
const foundingTurn = "founding"

// found says of a new session that its message is still to come.
func (n NewSession) found(tx *sqlite.Tx, now time.Time) error {
	if !n.Unbegun {
		return nil
	}
	_, err := tx.Exec(putTurn, n.ID, foundingTurn, "", n.Source, n.Cwd, false, now.UnixMicro())
	return during("found session", err)
}

// unbegun finds sessions that were made for a message, and whether anything came after what they were made with: a row or a message that
// waits, of whomever.
const unbegun = `SELECT t.session_id, EXISTS (SELECT 1 FROM inbox i WHERE i.session_id = t.session_id)
 OR EXISTS (SELECT 1 FROM messages m WHERE m.session_id = t.session_id AND m.turn_id NOT NULL AND m.created_at >= t.began_at)
 FROM turns t WHERE t.turn_id = '` + foundingTurn + `' AND t.began_at < ? ORDER BY t.session_id`

// DropUnbegun deletes the sessions that a process made for a message, with its history or as a fork, and then ended before the message was
// stored: nobody was told of them. What was begun since before is left alone: it is this life's. One in which something was said all the same
// stays.
func (s *Store) DropUnbegun(ctx context.Context, before time.Time) (dropped []string, err error) {
	var found, kept []string
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		found, kept = nil, nil
		for r, err := range c.Query(unbegun, before.UnixMicro()) {
			switch {
			case err != nil:
				return fmt.Errorf("read sessions that were not begun: %w", err)
			case r.Bool(1):
				kept = append(kept, r.Text(0))
			default:
				found = append(found, r.Text(0))
			}
		}
		return nil
	})
	for _, id := range found {
		if err != nil {
			break
		}
		if _, err = s.Delete(ctx, id); err == nil {
			dropped = append(dropped, id)
		} else if busy(err) { // by whom cannot be told: the next start looks again
			err = nil
		}
	}
	if err == nil {
		err = s.begunAfterAll(ctx, kept)
	}
	return dropped, err
}

func (s *Store) begunAfterAll(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	return s.file.Write(ctx, sqlite.Op{
		Label: "keep sessions", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			for _, id := range ids {
				if _, err := tx.Exec(endTurn, id, foundingTurn); err != nil {
					return during("keep session", err)
				}
			}
			return nil
		},
		Done: func(*sqlite.Conn) (bool, error) { return false, nil }, // the same once more does no harm
	})
}
