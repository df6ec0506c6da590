package sessiondb

import (
	"context"
	"slices"
	"time"

	"gatewayd/internal/sqlite"
)

// Why a session ended. A boundary starts a new conversation under the same key; an automatic end says that nobody was
// there any more; what is neither was a person's explicit close, except EndCompression, after which a child goes on.
const (
	EndClosed      = "closed"
	EndCompression = "compression"
)

var boundaryReasons = []string{
	"session_reset", "session_switch", "idle", "daily", "suspended", "resume_pending_expired", "new_session",
}

var automaticReasons = []string{
	"agent_close", "ws_orphan_reap", "superseded_by_resume", "startup_orphan_reap", "tui_shutdown", "ws_disconnect", "idle_timeout", "lru_evict",
}

// IsBoundary reports a reason after which the next message starts a new conversation.
func IsBoundary(reason string) bool { return slices.Contains(boundaryReasons, reason) }

// IsExplicitClose reports that a person closed the session.
func IsExplicitClose(reason string) bool {
	return reason != "" && reason != EndCompression && reason != EndDeleted && !IsBoundary(reason) && !slices.Contains(automaticReasons, reason)
}

// EndSession stamps the end. The first stamp wins: stamped is false when the session had ended already, and the
// earlier reason stays. A boundary also begins a new generation of the routes that lead here.
func (s *Store) EndSession(ctx context.Context, id, reason string) (stamped bool, err error) {
	if reason == "" {
		return false, errInvalid(sessionThing(id), "cannot be ended without a reason")
	}
	now := time.Now().UnixMicro()
	err = s.file.Write(ctx, sqlite.Op{
		Label: "end session", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			ok, err := endSession(tx, id, reason, now)
			stamped = ok
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			return exists(c, `SELECT 1 FROM sessions WHERE id = ? AND ended_at IS NOT NULL`, id)
		},
	})
	return stamped, err
}

func endSession(tx *sqlite.Tx, id, reason string, now int64) (bool, error) {
	res, err := tx.Exec(`UPDATE sessions SET ended_at = ?, end_reason = ? WHERE id = ? AND ended_at IS NULL`, now, reason, id)
	if err != nil {
		return false, err
	}
	if res.Changes == 0 {
		found, err := exists(tx.Conn, `SELECT 1 FROM sessions WHERE id = ?`, id)
		return false, firstError(err, missingUnless(found, id))
	}
	if IsBoundary(reason) {
		_, err = tx.Exec(`UPDATE routes SET generation = generation + 1, updated_at = ? WHERE session_id = ?`, now, id)
	}
	return true, err
}

// ReopenIfExplicitlyClosed undoes a person's close and nothing else, for the surface that still sends messages to the
// session: its key still leads there (a session without a key is named by its id), it holds the turn lease, no other
// kind, and it calls this before a turn. It names the stamp it saw, so that an end that came meanwhile stands. false:
// there was nothing to undo, or it must not be undone.
func (s *Store) ReopenIfExplicitlyClosed(ctx context.Context, l Lease, provenance string) (bool, error) {
	seen, err := s.Session(ctx, l.Session)
	if err != nil || seen.EndedAt == nil || !IsExplicitClose(seen.EndReason) {
		return false, err
	}
	reopened := false
	err = s.file.Write(ctx, sqlite.Op{
		Label: "reopen session", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			ok, err := reopen(tx, l, seen)
			reopened = ok
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			return exists(c, `SELECT 1 FROM sessions WHERE id = ? AND ended_at IS NULL`, l.Session)
		},
	})
	if reopened {
		s.log.Warn("closed session reopened", "session", l.Session, "reason", seen.EndReason, "by", provenance)
	}
	return reopened, err
}

func reopen(tx *sqlite.Tx, l Lease, seen Session) (bool, error) {
	if held, err := holds(tx.Conn, l); err != nil || !held || l.Kind != Turn {
		return false, firstError(err, errLeaseLost(l))
	}
	if went, err := exists(tx.Conn, `SELECT 1 FROM sessions WHERE parent = ?`, seen.ID); err != nil || went {
		return false, err
	}
	res, err := tx.Exec(`UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ? AND ended_at = ? AND end_reason = ?
 AND (key IS NULL OR EXISTS(SELECT 1 FROM routes WHERE routes.key = sessions.key AND session_id = sessions.id))`,
		seen.ID, seen.EndedAt.UnixMicro(), seen.EndReason)
	return res.Changes > 0, err
}
