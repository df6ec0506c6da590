package sessiondb

import (
	"context"
	"fmt"
	"time"

	"gatewayd/internal/sqlite"
)

// Resolve is the one way from a routing key to its session: whoever asks, and however many at once, gets the same one.
// A key without a session, or whose session ended at a boundary or by itself, gets a new one (made = true). A session
// that a person closed is returned as it is: the surface reopens it with ReopenIfExplicitlyClosed.
func (s *Store) Resolve(ctx context.Context, n NewSession) (out Session, made bool, err error) {
	if n.Key == "" {
		return Session{}, false, errInvalid("session key", "is empty")
	}
	if out, err = s.SessionByKey(ctx, n.Key); err == nil && usable(out) {
		return out, false, nil
	}
	return s.ensure(ctx, n)
}

// SessionByKey is the session that a key leads to now, ended or not; ErrSessionMissing when there is none.
func (s *Store) SessionByKey(ctx context.Context, key string) (Session, error) {
	return s.oneSession(ctx, key, routed)
}

const routed = `SELECT ` + sessionColumns + ` FROM sessions WHERE id = (SELECT session_id FROM routes WHERE key = ?)`

// usable says whether a route to this session still stands.
func usable(s Session) bool { return s.EndedAt == nil || IsExplicitClose(s.EndReason) }

// route finds or makes the session inside one transaction, which is what makes racing askers agree.
func (s *Store) route(tx *sqlite.Tx, n NewSession, now time.Time) (Session, bool, error) {
	if n.Key != "" {
		if got, found, err := s.querySession(tx.Conn, routed, n.Key); err != nil || (found && usable(got)) {
			return got, false, err
		}
	}
	got, found, err := s.querySession(tx.Conn, `SELECT `+sessionColumns+` FROM sessions WHERE id = ?`, n.ID)
	if err != nil {
		return Session{}, false, err
	}
	if !found {
		if n.TitleAlone {
			if err := takenTitle(tx.Conn, n.ID, n.Title); err != nil {
				return Session{}, false, err
			}
		}
		if err := insertSession(tx, n, now.UnixMicro()); err != nil {
			return Session{}, false, err
		}
		if got, _, err = s.querySession(tx.Conn, `SELECT `+sessionColumns+` FROM sessions WHERE id = ?`, n.ID); err != nil {
			return Session{}, false, err
		}
	}
	return got, !found, pointRoute(tx, n.Key, got.ID, now.UnixMicro())
}

func pointRoute(tx *sqlite.Tx, key, session string, now int64) error {
	if key == "" {
		return nil
	}
	_, err := tx.Exec(`INSERT INTO routes(key, session_id, updated_at) VALUES(?1, ?2, ?3)
 ON CONFLICT(key) DO UPDATE SET session_id = ?2, updated_at = ?3`, key, session, now)
	return err
}

func insertSession(tx *sqlite.Tx, n NewSession, now int64) error {
	var prompt any
	if n.Prompt != "" {
		hash := promptHash(n.Prompt)
		if _, err := tx.Exec(`INSERT OR IGNORE INTO prompts(hash, body, created_at) VALUES(?, ?, ?)`, hash, n.Prompt, now); err != nil {
			return fmt.Errorf("store prompt: %w", err)
		}
		prompt = hash
	}
	if n.Parent != "" {
		if found, err := exists(tx.Conn, `SELECT 1 FROM sessions WHERE id = ?`, n.Parent); err != nil || !found {
			return fmt.Errorf("parent: %w", firstError(err, errSessionMissing(n.Parent)))
		}
	}
	_, err := tx.Exec(`INSERT INTO sessions(id, key, source, title, model, prompt_hash, parent, cwd, opened_at, hidden, last_active)
 VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?9)`, n.ID, null(n.Key), n.Source, n.Title, n.Model, prompt, null(n.Parent), n.Cwd, now, n.Hidden)
	if err != nil {
		return fmt.Errorf("insert session: %w", err)
	}
	return unbury(tx, n.ID)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
