package sessiondb

import (
	"context"
	"time"

	"gatewayd/internal/sqlite"
)

// maxChain is how far a chain of sessions that compaction continued in others is followed.
const maxChain = 1_000

// Bind lets a key lead to a session that is there, and opens that session again if it had ended. An empty key only opens.
// What compaction continued elsewhere is followed to its end. It gives the session that was bound.
func (s *Store) Bind(ctx context.Context, key, session string) (out Session, err error) {
	if !plainName(key) {
		return Session{}, errInvalid("session key", "%q is longer than 256 bytes, or holds control characters or slashes", key)
	}
	now := time.Now().UnixMicro()
	err = s.file.Write(ctx, sqlite.Op{
		Label: "bind session", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			if out, err = s.tip(tx, session); err != nil {
				return err
			}
			if _, err := tx.Exec(`UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ? AND ended_at IS NOT NULL`, out.ID); err != nil {
				return err
			}
			out.EndedAt, out.EndReason = nil, ""
			return pointRoute(tx, key, out.ID, now)
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			return exists(c, `SELECT 1 FROM sessions WHERE id = ?1 AND ended_at IS NULL AND (?2 = '' OR EXISTS(SELECT 1 FROM routes WHERE key = ?2 AND session_id = ?1))`, out.ID, key)
		},
	})
	return out, err
}

// tip follows a session to the one that it goes on in.
func (s *Store) tip(tx *sqlite.Tx, session string) (Session, error) {
	for range maxChain {
		got, found, err := s.querySession(tx.Conn, `SELECT `+sessionColumns+` FROM sessions WHERE id = ?`, session)
		if err != nil || !found {
			return Session{}, firstError(err, errSessionMissing(session))
		}
		if got.EndReason != EndCompression {
			return got, nil
		}
		next := ""
		found, err = tx.Row(`SELECT id FROM sessions WHERE parent = ? ORDER BY opened_at DESC, id DESC LIMIT 1`, []any{session}, &next)
		if err != nil || !found {
			return got, err
		}
		session = next
	}
	return Session{}, errInvalid(sessionThing(session), "is part of a chain of sessions without an end")
}
