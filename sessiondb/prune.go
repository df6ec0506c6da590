package sessiondb

import (
	"context"
	"time"

	"gatewayd/internal/sqlite"
)

// DefaultPruneAge is how long a session has to have ended before it is old.
const DefaultPruneAge = 90 * 24 * time.Hour

// PruneOptions say what is old. The zero value takes 90 days.
type PruneOptions struct {
	Age    time.Duration
	DryRun bool // say what would go
}

// Pruned says what went.
type Pruned struct {
	Deleted
	Busy int      `json:"busy"` // sessions left alone because somebody works in them
	IDs  []string `json:"ids"`
}

// Prune deletes sessions that ended long ago, and what a killed deletion left. A session that is open or pinned stays, and
// so does all that a compaction continued: its segments go together or not at all. Each of these goes in a transaction
// of its own (see Delete), so writers wait for one at most; an error means that those before it are gone.
func (s *Store) Prune(ctx context.Context, o PruneOptions) (Pruned, error) {
	if o.Age <= 0 {
		o.Age = DefaultPruneAge
	}
	groups, err := s.oldLineages(ctx, time.Now().Add(-o.Age))
	out := Pruned{IDs: []string{}}
	for _, ids := range groups {
		if err != nil {
			break
		}
		if o.DryRun {
			out.Sessions, out.IDs = out.Sessions+len(ids), append(out.IDs, ids...)
			continue
		}
		var gone Deleted
		if gone, err = s.Delete(ctx, ids...); busy(err) {
			out.Busy, err = out.Busy+len(ids), nil
			continue
		}
		if err == nil {
			out.Sessions, out.Messages, out.IDs = out.Sessions+gone.Sessions, out.Messages+gone.Messages, append(out.IDs, ids...)
		}
	}
	return out, err
}

// segment is what pruning has to know of a session.
type segment struct {
	id, parent, reason string
	pinned             bool
	last               time.Time // of its end and its last row, whichever is later; zero while it is open
}

// oldLineages gives what may be deleted together: a session, or all segments of a conversation that compaction continued.
func (s *Store) oldLineages(ctx context.Context, before time.Time) (out [][]string, err error) {
	all := map[string]segment{}
	var order []string
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		clear(all)
		order = order[:0]
		for r, err := range c.Query(`SELECT id, parent, end_reason, pinned, ended_at, last_active FROM sessions ORDER BY id`) {
			if err != nil {
				return err
			}
			one := segment{id: r.Text(0), parent: text(r, 1), reason: text(r, 2), pinned: r.Bool(3)}
			if !r.Null(4) {
				one.last = later(moment(r.Int(4)), moment(r.Int(5)))
			}
			all[one.id], order = one, append(order, one.id)
		}
		return nil
	})
	lineages, roots := map[string][]string{}, []string{}
	for _, id := range order {
		root := rootOf(all, id)
		if lineages[root] == nil {
			roots = append(roots, root)
		}
		lineages[root] = append(lineages[root], id)
	}
	for _, root := range roots {
		if old(all, lineages[root], before) {
			out = append(out, lineages[root])
		}
	}
	return out, err
}

// rootOf follows continuations back; a circle, which only damage makes, ends where it was entered.
func rootOf(all map[string]segment, id string) string {
	for range all {
		parent, known := all[all[id].parent]
		if !known || parent.reason != EndCompression {
			break
		}
		id = parent.id
	}
	return id
}

func old(all map[string]segment, ids []string, before time.Time) bool {
	for _, id := range ids {
		one := all[id]
		if one.reason != EndDeleted && (one.pinned || one.last.IsZero() || !one.last.Before(before)) {
			return false
		}
	}
	return true
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
