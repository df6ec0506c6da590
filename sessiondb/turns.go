package sessiondb

import (
	"context"
	"fmt"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/sqlite"
)

// Pending is a turn that has begun and not ended. It is written in the transaction of its user row and deleted in that of its last
// row, so what a start finds here was cut off.
type Pending struct {
	Session, Turn string
	UserUID       string // of the row it answers
	Source, Dir   string
	Detached      bool   // it goes on without its caller
	Attempts      int    // processes that have worked on it
	Mark          string // MarkDrain, MarkLeft or nothing
	BeganAt       time.Time
	TriedAt       time.Time // when the last of the attempts began
}

// Marks of a pending turn.
const (
	MarkDrain = "drain" // a daemon that began to stop saw it running
	MarkLeft  = "left"  // and interrupted it in order: nothing of it was running any more
)

const (
	putTurn = `INSERT OR REPLACE INTO turns(session_id, turn_id, user_uid, source, dir, detached, attempts, mark, began_at, tried_at)
 VALUES(?1, ?2, ?3, ?4, ?5, ?6, 1, '', ?7, ?7)`
	endTurn     = `DELETE FROM turns WHERE session_id = ? AND turn_id = ?`
	turnColumns = `session_id, turn_id, user_uid, source, dir, detached, attempts, mark, began_at, tried_at`
)

// Begin is Append of a turn's first rows, and in the same transaction makes the turn pending. A pending turn of this session
// that was there before is replaced: who holds the lease has closed it.
func (s *Store) Begin(ctx context.Context, l Lease, p Pending, rows []NewMessage) ([]Message, error) {
	return s.append(ctx, l, rows, func(tx *sqlite.Tx) error {
		_, err := tx.Exec(putTurn, l.Session, p.Turn, p.UserUID, p.Source, p.Dir, p.Detached, time.Now().UnixMicro())
		return during("begin turn", err)
	})
}

// End is Append of a turn's last rows, and in the same transaction takes the turn from the pending ones. Without rows it only does
// that.
func (s *Store) End(ctx context.Context, l Lease, turn string, rows []NewMessage) ([]Message, error) {
	end := func(tx *sqlite.Tx) error {
		_, err := tx.Exec(endTurn, l.Session, turn)
		return during("end turn", err)
	}
	if len(rows) > 0 {
		return s.append(ctx, l, rows, end)
	}
	return nil, s.file.Write(ctx, sqlite.Op{
		Label: "end turn", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			if err := verify(tx, l); err != nil {
				return err
			}
			return end(tx)
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			there, err := exists(c, `SELECT 1 FROM turns WHERE session_id = ? AND turn_id = ?`, l.Session, turn)
			return !there, err
		},
	})
}

// Retry counts one more process that works on a pending turn, and gives it as it is now. With free it does not count: the one
// before it left the turn in order. It is durable when it returns. ErrStalePlan: the turn is not pending any more.
func (s *Store) Retry(ctx context.Context, l Lease, turn string, free bool) (Pending, error) {
	now := time.Now().UnixMicro()
	add := 1
	if free || mutation.On("resume-is-not-counted") {
		add = 0
	}
	var out Pending
	err := s.file.Write(ctx, sqlite.Op{
		Label: "resume turn", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			if err := verify(tx, l); err != nil {
				return err
			}
			res, err := tx.Exec(`UPDATE turns SET attempts = attempts + ?, mark = '', tried_at = ? WHERE session_id = ? AND turn_id = ?`, add, now, l.Session, turn)
			if err == nil && res.Changes == 0 {
				err = errStalePlan(l.Session)
			}
			if err != nil {
				return err
			}
			list, err := queryPending(tx.Conn, ` WHERE session_id = ?`, l.Session)
			if err == nil && len(list) == 1 {
				out = list[0]
			}
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			return exists(c, `SELECT 1 FROM turns WHERE session_id = ? AND turn_id = ? AND tried_at = ?`, l.Session, turn, now)
		},
	})
	return out, err
}

// Mark says of pending turns of this process what a stop does with them. Those that have ended meanwhile are not touched. It needs
// no lease: it changes nothing that was said.
func (s *Store) Mark(ctx context.Context, mark string, turns ...string) error {
	if len(turns) == 0 {
		return nil
	}
	return s.file.Write(ctx, sqlite.Op{
		Label: "mark turns", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			for _, id := range turns {
				if _, err := tx.Exec(`UPDATE turns SET mark = ? WHERE turn_id = ?`, mark, id); err != nil {
					return fmt.Errorf("mark turn: %w", err)
				}
			}
			return nil
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			other, err := exists(c, `SELECT 1 FROM turns WHERE turn_id = ? AND mark <> ?`, turns[len(turns)-1], mark)
			return !other, err
		},
	})
}

// Pendings lists the turns that have begun and not ended, the oldest first.
func (s *Store) Pendings(ctx context.Context) (out []Pending, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		out, err = queryPending(c, ` WHERE turn_id <> '`+foundingTurn+`' ORDER BY began_at, session_id`)
		return err
	})
	return out, err
}

func queryPending(c *sqlite.Conn, where string, args ...any) (out []Pending, err error) {
	for r, err := range c.Query(`SELECT `+turnColumns+` FROM turns`+where, args...) {
		if err != nil {
			return nil, fmt.Errorf("read pending turns: %w", err)
		}
		out = append(out, Pending{
			Session: r.Text(0), Turn: r.Text(1), UserUID: r.Text(2), Source: r.Text(3), Dir: r.Text(4), Detached: r.Bool(5),
			Attempts: int(r.Int(6)), Mark: r.Text(7), BeganAt: moment(r.Int(8)), TriedAt: moment(r.Int(9)),
		})
	}
	return out, nil
}

// during puts the verb before an error.
func during(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", verb, err)
}
