package notify

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
)

// board is what the notifier keeps of one. All but the flights belongs to the goroutine of Run.
type board struct {
	slug kanban.Slug
	path string
	log  *slog.Logger

	handle  *kanban.Board
	release func()
	stamp   sqlite.Stamp
	stamped bool
	due     time.Time // when time alone asks for a look
	swept   int64     // events up to here have their rows
	pruned  time.Time
	counts  kanban.OutboxCounts

	trouble string
	again   time.Time // not opened before
	wait    time.Duration
	print   sqlite.Fingerprint // of a damaged file: it is left alone until this changes
	damaged bool

	mu      sync.Mutex
	inTheir map[int64]bool // subscriptions with a delivery under way
}

func newBoard(slug kanban.Slug, path string, log *slog.Logger) *board {
	return &board{slug: slug, path: path, log: log.With("board", string(slug)), inTheir: map[int64]bool{}}
}

func sortedBoards(boards map[kanban.Slug]*board) []*board {
	list := make([]*board, 0, len(boards))
	for _, b := range boards {
		list = append(list, b)
	}
	slices.SortFunc(list, func(a, b *board) int { return cmp.Compare(a.slug, b.slug) })
	return list
}

// look visits the board if it changed, and reports whether it did.
func (b *board) look(ctx context.Context, n *Notifier, now time.Time) bool {
	if b.shut(n, now) || b.handle == nil && !b.open(ctx, n, now) {
		return false
	}
	stamp, err := b.handle.File().Stamp()
	if err == nil && b.stamped && stamp == b.stamp && (b.due.IsZero() || now.Before(b.due)) {
		return false
	}
	b.stamp, b.stamped = stamp, err == nil
	if err == nil {
		err = b.visit(ctx, n, now)
	}
	if err != nil && ctx.Err() == nil {
		b.failed(err, now)
	} else if err == nil && b.trouble != "" {
		b.log.Info("notifications are delivered again", "was", b.trouble)
		b.trouble, b.wait, b.damaged = "", 0, false
	}
	return true
}

// shut: nothing opens a board that is disabled, and who holds it lets go.
func (b *board) shut(n *Notifier, now time.Time) bool {
	if b.handle == nil && now.Before(b.again) {
		return true
	}
	if b.handle != nil && (b.handle.Replaced() || b.handle.Lost()) {
		b.close()
	}
	if n.o.Disabled(b.slug) == nil {
		return false
	}
	b.close()
	return true
}

func (b *board) open(ctx context.Context, n *Notifier, now time.Time) bool {
	if b.damaged && sqlite.TakeFingerprint(b.path) == b.print {
		return false
	}
	if _, err := os.Stat(b.path); err != nil || kanban.BeingMade(b.path) {
		return false // a board without a file has nothing to tell
	}
	handle, release, err := n.o.Acquire(ctx, b.path)
	if err != nil {
		b.failed(err, now)
		return false
	}
	b.handle, b.release, b.stamped, b.swept = handle, release, false, 0
	return true
}

func (b *board) close() {
	if b.flying() {
		return // they hold the handle; the next look lets go
	}
	if b.release != nil {
		b.release()
	}
	b.handle, b.release, b.stamped = nil, nil, false
}

// failed says a trouble when it begins and when it changes. Damage is the dispatcher's to report; here it only keeps
// the file from being opened again before it has changed.
func (b *board) failed(err error, now time.Time) {
	if text := err.Error(); text != b.trouble {
		b.log.Warn("notifications of a board wait", "path", b.path, "error", text)
		b.trouble, b.wait = text, 0
	}
	b.wait = min(max(2*b.wait, time.Second), time.Minute)
	b.again, b.due = now.Add(b.wait), now.Add(b.wait)
	class := sqlite.ClassOf(err)
	if b.damaged = errors.Is(err, kanban.ErrCorruptBoard) || class == sqlite.Corrupt || class == sqlite.NotADatabase; b.damaged {
		b.close()
		b.print = sqlite.TakeFingerprint(b.path)
	} else if class != sqlite.Busy {
		b.close()
	}
}

// visit writes the rows that are missing, and sends off what is due.
func (b *board) visit(ctx context.Context, n *Notifier, now time.Time) (err error) {
	if b.swept, _, err = b.handle.Sweep(ctx, b.swept); err != nil {
		return err
	}
	if b.counts, err = b.handle.OutboxCounts(ctx); err != nil {
		return err
	}
	b.due = time.Time{}
	if b.counts.Subscriptions == 0 {
		return nil
	}
	if now.Sub(b.pruned) > pruneEvery {
		if _, err := b.handle.PruneOutbox(ctx, now.Add(-Retention)); err != nil {
			return err
		}
		b.pruned = now
	}
	b.wakeBy(b.pruned.Add(pruneEvery + time.Second))
	if b.counts.Pending == 0 {
		return nil
	}
	errands, err := b.handle.Errands(ctx)
	for _, e := range errands {
		b.consider(ctx, n, e, now)
	}
	return err
}

func (b *board) wakeBy(t time.Time) {
	if b.due.IsZero() || t.Before(b.due) {
		b.due = t
	}
}

// consider sends a row off, or notes when to look at it again.
func (b *board) consider(ctx context.Context, n *Notifier, e kanban.Errand, now time.Time) {
	switch {
	case b.isFlying(e.Parcel.Subscription):
		return // its end changes the board
	case !e.Parcel.Due(now):
		b.wakeBy(time.Unix(e.Parcel.NextAt, 0))
		return
	case !e.Lease.Free(now):
		b.wakeBy(now.Add(longestWait / 60)) // its holder may die any time
		return
	}
	to, err := n.o.Targets.find(ctx, e.Target, e.Address)
	switch {
	case err != nil:
		b.wakeBy(now.Add(firstWait))
		return
	case to == nil:
		b.unserved(ctx, e, now)
		return
	}
	select {
	case n.slots <- struct{}{}:
	default:
		b.wakeBy(now.Add(pollEvery))
		return
	}
	b.fly(e.Parcel.Subscription, true)
	handle := b.handle
	n.flights.Go(func() {
		defer func() { <-n.slots; b.fly(e.Parcel.Subscription, false); n.Wake() }()
		b.deliver(ctx, handle, to, e.Parcel.Subscription)
	})
}

// unserved: nobody here knows the target; another daemon on this root may. What nobody took for six hours is shown.
func (b *board) unserved(ctx context.Context, e kanban.Errand, now time.Time) {
	if now.Sub(time.Unix(e.Parcel.CreatedAt, 0)) < giveUp {
		b.wakeBy(now.Add(longestWait))
		return
	}
	d := kanban.Delivery{ParkAll: true, Error: kanban.NeverServed(e.Target, e.Address).Error()}
	if err := b.handle.Record(ctx, e, d); err != nil {
		b.wakeBy(now.Add(longestWait))
	}
}

func (b *board) fly(subscription int64, on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inTheir[subscription] = on; !on {
		delete(b.inTheir, subscription)
	}
}

func (b *board) isFlying(subscription int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inTheir[subscription]
}

func (b *board) flying() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.inTheir) > 0
}

// deliver makes one attempt after another while they succeed: rows that waited behind one are not each a look's length late.
func (b *board) deliver(ctx context.Context, handle *kanban.Board, to target, subscription int64) {
	for ctx.Err() == nil {
		e, ok, err := handle.Take(ctx, subscription, kanban.NewLease(leaseTime))
		if err != nil || !ok {
			return
		}
		o := b.attempt(ctx, to, e)
		d := o.next(e.Parcel, time.Now())
		if o.verdict != accepted && ctx.Err() != nil {
			d = kanban.Delivery{Error: "broken off: the daemon stopped"}
		}
		b.tell(e, d)
		recording, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
		err = handle.Record(recording, e, d)
		cancel()
		if err != nil {
			b.log.Warn("a delivery could not be recorded; it is made again with the same key", "task", e.Parcel.Task, "error", err)
			return
		}
		if !d.Delivered {
			return
		}
	}
}

func (b *board) attempt(ctx context.Context, to target, e kanban.Errand) outcome {
	m, err := newMessage(b.slug, e.Parcel)
	if err != nil {
		return outcome{verdict: refused, err: err.Error()}
	}
	return to.send(ctx, m)
}

// tell says the first failure of a row, and its parking.
func (b *board) tell(e kanban.Errand, d kanban.Delivery) {
	attrs := []any{"task", e.Parcel.Task, "subscription", e.Parcel.Subscription, "target", e.Target, "address", e.Address, "error", d.Error}
	switch {
	case d.Park, d.ParkAll:
		b.log.Warn("a notification is parked until `gatewayd kanban notify retry`", attrs...)
	case !d.Delivered && e.Parcel.Attempts == 1:
		b.log.Info("a notification is tried again later", attrs...)
	case d.Delivered && e.Parcel.Attempts > 1:
		b.log.Info("a notification arrived", "task", e.Parcel.Task, "subscription", e.Parcel.Subscription, "attempts", e.Parcel.Attempts)
	}
}
