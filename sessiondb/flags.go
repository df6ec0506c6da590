package sessiondb

import (
	"context"
	"fmt"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// SessionFlags are what a person sets of a session; nil leaves what is there.
type SessionFlags struct {
	Archived, Pinned, Hidden *bool
}

// SetFlags sets flags of a session. Archived is a person's word: activity does not take it back.
func (s *Store) SetFlags(ctx context.Context, id string, f SessionFlags) error {
	flag := func(b *bool) any {
		if b == nil {
			return nil
		}
		return *b
	}
	return s.changeSession(ctx, "set flags", id, `UPDATE sessions SET archived = coalesce(?2, archived), pinned = coalesce(?3, pinned), hidden = coalesce(?4, hidden)
 WHERE id = ?1 AND end_reason IS NOT '`+EndDeleted+`'`, flag(f.Archived), flag(f.Pinned), flag(f.Hidden))
}

// Reopen takes the end of a session back, because a person says so. One that a compaction continued in another, or that is being
// deleted, stays ended: a Conflict problem. An open one stays as it is.
func (s *Store) Reopen(ctx context.Context, id string) error {
	seen, err := s.Session(ctx, id)
	if err != nil || seen.EndedAt == nil {
		return err
	}
	if seen.EndReason == EndCompression || seen.EndReason == EndDeleted {
		return &problem.Error{
			Kind: problem.Conflict, Thing: sessionThing(id), What: fmt.Sprintf("has ended for good (%s)", seen.EndReason), Fate: "nothing was changed",
			Remedy: "go on in the session that continues it, or fork this one",
		}
	}
	return s.changeSession(ctx, "reopen session", id, `UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?1`)
}

func (s *Store) changeSession(ctx context.Context, label, id, change string, args ...any) error {
	return s.file.Write(ctx, sqlite.Op{
		Label: label, Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			res, err := tx.Exec(change, append([]any{id}, args...)...)
			if err == nil && res.Changes == 0 {
				return errSessionMissing(id)
			}
			return during(label, err)
		},
		Done: func(*sqlite.Conn) (bool, error) { return false, nil },
	})
}
