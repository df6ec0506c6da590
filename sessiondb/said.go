package sessiondb

import (
	"context"
	"fmt"
	"math"

	"gatewayd/internal/sqlite"
)

// Said is what the rows tell of a message by its uid: the turn that answers it and what it stored, in any state.
type Said struct {
	Session, Turn string
	Pending       bool // the turn has not ended
	Rows          []Message
}

// Answer is the last row of the turn where it is an answer, and not a row that explains why there is none.
func (t Said) Answer() (Message, bool) {
	if t.Pending || len(t.Rows) == 0 {
		return Message{}, false
	}
	last := t.Rows[len(t.Rows)-1]
	return last, last.Role == "assistant" && last.Kind == "" && len(last.ToolCalls) == 0
}

// Receipt is the receipt of the turn as far as it is stored.
func (t Said) Receipt() Receipt { return receiptFor(t.Session, t.Turn, t.Rows) }

// Said finds the turn of a message. found is false when no row has this uid: whatever asked for it stored nothing.
func (s *Store) Said(ctx context.Context, uid string) (t Said, found bool, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		var turn *string
		if found, err = c.Row(`SELECT session_id, turn_id FROM messages WHERE uid = ?`, []any{uid}, &t.Session, &turn); err != nil || !found || turn == nil {
			return err
		}
		t.Turn = *turn
		if t.Pending, err = exists(c, `SELECT 1 FROM turns WHERE session_id = ? AND turn_id = ?`, t.Session, t.Turn); err != nil {
			return err
		}
		t.Rows, err = s.queryMessages(c, nil, selectTurn, t.Session, t.Turn, int64(0), int64(math.MaxInt64))
		return err
	})
	if err != nil {
		return Said{}, false, fmt.Errorf("read what was said: %w", err)
	}
	return t, found, nil
}
