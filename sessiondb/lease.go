package sessiondb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// Times of a lease. A holder renews at a third of the TTL, so two renewals may fail before it is lost. A waiter polls,
// because the holder may be another process; a release in this process wakes it at once.
const (
	DefaultLeaseTTL = 300 * time.Second
	leaseWait       = 1800 * time.Second
	leasePoll       = time.Second
	leaseSweep      = 24 * time.Hour // a row this long expired belongs to nobody
	sweepEvery      = time.Hour      // how often a store looks for such rows: it reads all leases for that
)

// LeaseKind says what a lease is for. An append looks at the turn lease only.
type LeaseKind string

// The two kinds.
const (
	Turn       LeaseKind = "turn"
	Compacting LeaseKind = "compaction"
)

// Lease is the right to write one conversation. Token is new for each acquisition: a process that lost its lease and
// another turn of the same process are both strangers.
type Lease struct {
	Session string
	Kind    LeaseKind
	Token   string
	Holder  Holder
	Expires time.Time
	TTL     time.Duration
}

// HeldError says who holds a lease that was asked for.
type HeldError struct{ Lease Lease }

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s lease held by %s until %s", e.Lease.Kind, e.Lease.Holder, e.Lease.Expires.Format(time.RFC3339))
}

// Is makes it ErrLeaseHeld.
func (e *HeldError) Is(target error) bool { return target == ErrLeaseHeld }

// AcquireTurn takes the turn lease of a session, waiting until it is free, ctx ends, or 1800 s have passed. A holder
// that is dead is replaced at once, a silent one after its TTL. ttl <= 0 means DefaultLeaseTTL.
func (s *Store) AcquireTurn(ctx context.Context, session string, h Holder, ttl time.Duration) (Lease, error) {
	return s.acquire(ctx, session, Turn, h, ttl, leaseWait)
}

// TryTurn is AcquireTurn without waiting; ErrLeaseHeld when somebody has it.
func (s *Store) TryTurn(ctx context.Context, session string, h Holder, ttl time.Duration) (Lease, error) {
	l, err := s.tryAcquire(ctx, session, Turn, h, ttl)
	return l, heldProblem(session, err)
}

func (s *Store) acquire(ctx context.Context, session string, kind LeaseKind, h Holder, ttl, wait time.Duration) (Lease, error) {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for {
		released := s.turns.next()
		l, err := s.tryAcquire(ctx, session, kind, h, ttl)
		if !errors.Is(err, ErrLeaseHeld) {
			return l, err
		}
		poll := time.NewTimer(leasePoll)
		select {
		case <-released:
		case <-poll.C:
		case <-deadline.C:
			poll.Stop()
			return Lease{}, heldProblem(session, err)
		case <-ctx.Done():
			poll.Stop()
			return Lease{}, heldProblem(session, errors.Join(err, context.Cause(ctx)))
		}
		poll.Stop()
	}
}

func heldProblem(session string, err error) error {
	if !errors.Is(err, ErrLeaseHeld) {
		return err
	}
	what, remedy := "is busy with another turn", "wait for that turn or interrupt it"
	if held, ok := errors.AsType[*HeldError](err); ok && held.Lease.Kind == Compacting {
		what, remedy = "is being compacted already", "wait until that is done"
	}
	return &problem.Error{
		Kind: problem.Busy, Thing: sessionThing(session), What: what, Fate: "nothing was written", Remedy: remedy, Err: err,
	}
}

func (s *Store) tryAcquire(ctx context.Context, session string, kind LeaseKind, h Holder, ttl time.Duration) (Lease, error) {
	if ttl <= 0 {
		ttl = DefaultLeaseTTL
	}
	now := time.Now()
	l := Lease{Session: session, Kind: kind, Token: newUID(now), Holder: h, Expires: now.Add(ttl), TTL: ttl}
	sweep := s.sweeps(now)
	var reclaimed *Lease
	s.recallAll(ctx)
	err := s.file.Write(ctx, sqlite.Op{
		Label: "acquire lease", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			if sweep {
				if _, err := tx.Exec(`DELETE FROM leases WHERE expires_at < ?`, now.Add(-leaseSweep).UnixMicro()); err != nil {
					return during("sweep leases", err)
				}
			}
			held, err := takeLease(tx, l, now)
			reclaimed = held
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) { return holds(c, l) },
	})
	if err != nil {
		return Lease{}, err
	}
	if reclaimed != nil {
		s.log.Warn("lease reclaimed", "session", session, "kind", string(kind), "pid", reclaimed.Holder.PID, "holder", reclaimed.Holder.Label)
	}
	return l, nil
}

// sweeps says, once in a while, that it is time to look for leases of nobody.
func (s *Store) sweeps(now time.Time) bool {
	last := s.swept.Load()
	return now.Sub(time.UnixMicro(last)).Abs() >= sweepEvery && s.swept.CompareAndSwap(last, now.UnixMicro())
}

// runs reports that the time of a lease is not over. One that ends later than any holder asks for was taken before the
// clock was set back; else a silent holder would lock its conversation for as long as that was.
func (l Lease) runs(now time.Time) bool {
	return l.Expires.After(now) && (l.Expires.Before(now.Add(leaseSweep)) || mutation.On("lease-of-a-later-clock-holds"))
}

// alive reports that somebody works under the lease, as far as can be known.
func (l Lease) alive() bool { return l.runs(time.Now()) && !l.Holder.Dead() }

// takeLease puts l in place of no lease, an expired one, or one whose holder is dead (which it returns).
func takeLease(tx *sqlite.Tx, l Lease, now time.Time) (*Lease, error) {
	if found, err := exists(tx.Conn, `SELECT 1 FROM sessions WHERE id = ?`, l.Session); err != nil || !found {
		return nil, firstError(err, missingUnless(found, l.Session))
	}
	held, found, err := readLease(tx.Conn, l.Session, l.Kind)
	if err != nil {
		return nil, err
	}
	if found && held.runs(now) && !held.Holder.Dead() {
		return nil, &HeldError{held}
	}
	err = putLease(tx, l, now.UnixMicro())
	if !found {
		return nil, err
	}
	return &held, err
}

func missingUnless(found bool, session string) error {
	if found {
		return nil
	}
	return errSessionMissing(session)
}
