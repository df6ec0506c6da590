package sessiondb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// SalvageReport says what a salvage brought back, or would.
type SalvageReport struct {
	Capture  string   `json:"capture"`
	DryRun   bool     `json:"dry_run,omitempty"`
	Done     bool     `json:"done"`     // the capture holds nothing more that the store lacks, and is marked so
	Sessions int      `json:"sessions"` // that the store did not have
	Messages int      `json:"messages"` // rows that the store did not have
	Changed  int      `json:"changed"`  // rows whose newer state (folded away, mended) was in the capture alone
	Usage    int      `json:"usage"`    // sums that were raised or added
	Prompts  int      `json:"prompts"`
	Leases   int      `json:"leases,omitempty"`  // of turns that go on; only at the open of a store that lost its log
	Turns    int      `json:"turns,omitempty"`   // that were under way; likewise
	Inbox    int      `json:"inbox,omitempty"`   // messages that were accepted and had not begun
	Busy     []string `json:"busy,omitempty"`    // sessions with a running turn: nothing of them was done, run it again
	Deleted  []string `json:"deleted,omitempty"` // sessions that were deleted since: nothing of them comes back
	Parted   []string `json:"parted,omitempty"`  // sessions that went on after the loss; see Salvage
}

// Salvage brings back what a capture holds and the store lacks. The captured log is played into a private copy of the
// captured database, and that is compared with the store by uid: sessions, messages with their flags and origins, sums of
// usage and prompts. What the store has stays; a row is never there twice; a capture whose rows are all in the store is
// marked, and salvaging it again changes nothing. With dryRun it only counts.
//
// The order of a conversation is the order of its ids. A row gets its old id where no newer row has taken that place, and
// the next free one otherwise; so a session that was not written since the loss reads exactly as it did. In one that was
// (Parted), the salvaged rows come behind the newer ones, in their own order; they keep their times. A compaction that was
// lost together with its rows is not done over again there: its summary is stored as superseded and the rows that it
// folded away are live.
//
// Responses and runs that a client was given the names of come back with their sessions. It does not bring back what passes by itself
// (leases and turns under way, but at the open of a store that was lost, deliveries, known requests), and it removes nothing. A capture that has no
// copy of its database is a Damaged problem that says so. Nothing is changed by an error but what whole sessions already
// came back.
func (s *Store) Salvage(ctx context.Context, c sqlite.Capture, dryRun bool) (SalvageReport, error) {
	return s.salvage(ctx, c, dryRun, Holder{})
}

// salvage is Salvage; own is the process whose leases stop nobody, because its turns cannot use this store yet.
func (s *Store) salvage(ctx context.Context, c sqlite.Capture, dryRun bool, own Holder) (out SalvageReport, err error) {
	out = SalvageReport{Capture: c.Dir, DryRun: dryRun}
	if err := s.Writable(); err != nil && !dryRun {
		return out, err
	}
	scratch, unlock, err := workIn(c.Dir)
	if err != nil {
		return out, err
	}
	defer unlock()
	path, err := sqlite.ReplayCapture(ctx, c, scratch)
	if err != nil {
		return out, err
	}
	from, err := Open(ctx, Options{Path: path, Existing: true})
	if err != nil {
		return out, fmt.Errorf("open the captured store: %w", err)
	}
	defer from.Close()
	if from.ReadOnly() {
		return out, from.readOnly
	}
	sv := &salvage{s: s, from: from, out: &out, own: own}
	if err := sv.run(ctx); err != nil {
		return out, fmt.Errorf("salvage %s: %w", c.Dir, err)
	}
	if err := sv.waiting(ctx); err != nil {
		return out, fmt.Errorf("salvage %s: %w", c.Dir, err)
	}
	if err := sv.doors(ctx); err != nil {
		return out, fmt.Errorf("salvage %s: %w", c.Dir, err)
	}
	if own.PID != 0 && !dryRun && !mutation.On("salvage-without-leases") {
		if err := errors.Join(sv.pending(ctx), sv.leases(ctx)); err != nil {
			return out, fmt.Errorf("salvage %s: %w", c.Dir, err)
		}
	}
	if out.Done = len(out.Busy) == 0 && !dryRun; out.Done {
		err = markSalvaged(c, out)
	}
	return out, err
}

// workIn gives a directory of the capture to work in, for one process at a time. What an earlier one left is removed.
func workIn(capture string) (scratch string, done func(), err error) {
	unwritable := func(err error) error {
		return &problem.Error{
			Kind: problem.Denied, Thing: "capture " + capture, What: "cannot be worked in", Fate: "it was left as it is",
			Remedy: "make its directory writable, or copy it to a place that is", Err: err,
		}
	}
	lock, err := os.OpenFile(filepath.Join(capture, "salvage.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", nil, unwritable(err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return "", nil, &problem.Error{
			Kind: problem.Busy, Thing: "capture " + capture, What: "is being salvaged by another process", Remedy: "wait for that one", Err: err,
		}
	}
	scratch = filepath.Join(capture, "scratch")
	if err := errors.Join(os.RemoveAll(scratch), os.Mkdir(scratch, 0o700)); err != nil {
		lock.Close()
		return "", nil, unwritable(err)
	}
	return scratch, func() {
		os.RemoveAll(scratch)
		lock.Close()
	}, nil
}

// markSalvaged writes that nothing is left to bring back.
func markSalvaged(c sqlite.Capture, out SalvageReport) error {
	return c.MarkSalvaged(struct {
		At time.Time `json:"at"`
		SalvageReport
	}{time.Now().UTC(), out})
}

// salvage is one pass from a captured store into the live one.
type salvage struct {
	s, from *Store
	out     *SalvageReport
	own     Holder
}

func (sv *salvage) run(ctx context.Context) error {
	ids, err := sv.sessions(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := sv.session(ctx, id); err != nil {
			return fmt.Errorf("session %s: %w", id, err)
		}
	}
	return nil
}

// sessions lists those of the capture, a parent before its children.
func (sv *salvage) sessions(ctx context.Context) (ids []string, err error) {
	err = sv.from.file.Read(ctx, func(c *sqlite.Conn) error {
		ids = nil
		for r, err := range c.Query(`SELECT id FROM sessions ORDER BY opened_at, rowid`) {
			if err != nil {
				return err
			}
			ids = append(ids, r.Text(0))
		}
		return nil
	})
	return ids, err
}

// session compares one session and brings back what is missing of it, in one transaction.
func (sv *salvage) session(ctx context.Context, id string) error {
	old, err := sv.read(ctx, id)
	if err != nil {
		return err
	}
	var plan missing
	err = sv.s.file.Read(ctx, func(c *sqlite.Conn) error {
		plan, err = sv.compare(c, old)
		return err
	})
	if plan.deleted && err == nil {
		sv.out.Deleted = append(sv.out.Deleted, id)
	}
	if err != nil || plan.deleted || plan.nothing() {
		return err
	}
	if !sv.out.DryRun && !plan.busy {
		err = sv.s.withoutDamagedIndex(ctx, func() error {
			return sv.s.file.Write(ctx, sqlite.Op{
				Label: "salvage session", Patience: sqlite.Transcript,
				Do: func(tx *sqlite.Tx) (err error) {
					if plan, err = sv.compare(tx.Conn, old); err != nil || plan.busy || plan.deleted {
						return err
					}
					return sv.bring(tx, old, &plan)
				},
				Done: func(c *sqlite.Conn) (bool, error) {
					left, err := sv.compare(c, old)
					return left.deleted || left.nothing(), err
				},
			})
		})
		if err != nil && !sqlite.IsCommitted(err) {
			return err
		}
		sv.s.edits.Add(1)
		sv.s.work.added(len(plan.rows))
	}
	sv.count(id, plan)
	return nil
}

func (sv *salvage) count(id string, plan missing) {
	out := sv.out
	if plan.deleted { // while it was read
		out.Deleted = append(out.Deleted, id)
		return
	}
	if plan.busy {
		out.Busy = append(out.Busy, id)
		return
	}
	if plan.parted && len(plan.rows) > 0 {
		out.Parted = append(out.Parted, id)
	}
	if plan.session {
		out.Sessions++
	}
	if plan.prompt {
		out.Prompts++
	}
	out.Messages, out.Changed, out.Usage = out.Messages+len(plan.rows), out.Changed+len(plan.changed), out.Usage+len(plan.usage)
}

// salvageOwn brings back, at the open of a store that was lost and is found again, what was committed to the -wal that it
// lost. It does so only where the main file is the one that the capture was taken of: after a replacement a person has to
// decide which of the two histories is right.
func (s *Store) salvageOwn(ctx context.Context) {
	captures, err := sqlite.Captures(s.file.Path())
	if err != nil {
		s.log.Error("captures cannot be listed", "path", s.file.Path(), "error", err)
		return
	}
	own, err := SelfHolder("")
	if err != nil {
		return
	}
	slices.Reverse(captures) // oldest first
	for _, c := range captures {
		if c.Salvaged() {
			continue
		}
		if c.Manifest.Reason != sqlite.ReasonLost || !s.file.Owns(c) {
			s.log.Warn("capture waits for a person: `gatewayd sessions salvage` shows what it holds", "path", c.Dir, "reason", string(c.Manifest.Reason))
			continue
		}
		out, err := s.salvage(ctx, c, false, own)
		if err != nil {
			s.log.Error("lost write-ahead log not salvaged, its capture stays", "path", c.Dir, "error", err)
			continue
		}
		s.log.Warn("lost write-ahead log salvaged", "path", c.Dir, "sessions", out.Sessions, "messages", out.Messages, "changed", out.Changed, "leases", out.Leases, "turns", out.Turns, "accepted", out.Inbox, "busy", len(out.Busy), "deleted", len(out.Deleted))
	}
}
