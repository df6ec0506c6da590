package sessiondb

import (
	"context"
	"time"

	"gatewayd/internal/sqlite"
)

// EndNew says that a person began anew under the same address.
const EndNew = "new_session"

// Anew is a session that was begun in place of another.
type Anew struct {
	Session Session
	Dropped int // accepted messages of the ended one that were never said
}

// BeginAnew ends the session of the lease at a boundary and begins n under every key that led to it, in one transaction: nobody
// sees a key without its session. Messages that were accepted for the ended one and not yet said are dropped. The caller
// holds its turn lease, so no turn is cut in two, and gives it back afterwards. ErrSessionEnded: somebody was quicker.
func (s *Store) BeginAnew(ctx context.Context, l Lease, n NewSession) (out Anew, err error) {
	now := time.Now()
	n.ID = ""
	if n, err = n.complete(now); err != nil {
		return Anew{}, err
	}
	err = s.file.Write(ctx, sqlite.Op{
		Label: "begin anew", Patience: sqlite.Transcript,
		Do: func(tx *sqlite.Tx) error {
			done, err := s.beginAnew(tx, l, n, now)
			out = done
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) { return exists(c, `SELECT 1 FROM sessions WHERE id = ?`, n.ID) },
	})
	return out, err
}

func (s *Store) beginAnew(tx *sqlite.Tx, l Lease, n NewSession, now time.Time) (Anew, error) {
	if err := verify(tx, l); err != nil {
		return Anew{}, err
	}
	if _, err := endSession(tx, l.Session, EndNew, now.UnixMicro()); err != nil {
		return Anew{}, err
	}
	dropped, err := tx.Exec(`DELETE FROM inbox WHERE session_id = ?`, l.Session)
	if err != nil {
		return Anew{}, err
	}
	var key *string
	if _, err := tx.Row(`SELECT key FROM sessions WHERE id = ?`, []any{l.Session}, &key); err != nil {
		return Anew{}, err
	}
	if key != nil && n.Key == "" {
		n.Key = *key
	}
	if err := insertSession(tx, n, now.UnixMicro()); err != nil {
		return Anew{}, err
	}
	if _, err := tx.Exec(`UPDATE routes SET session_id = ?, updated_at = ? WHERE session_id = ?`, n.ID, now.UnixMicro(), l.Session); err != nil {
		return Anew{}, err
	}
	if err := pointRoute(tx, n.Key, n.ID, now.UnixMicro()); err != nil {
		return Anew{}, err
	}
	made, _, err := s.querySession(tx.Conn, `SELECT `+sessionColumns+` FROM sessions WHERE id = ?`, n.ID)
	return Anew{Session: made, Dropped: int(dropped.Changes)}, err
}
