package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
)

// pollEvery is how soon a commit of another process is seen.
const pollEvery = 250 * time.Millisecond

// Run dispatches until ctx ends. Of all dispatchers on one root one leads; the others try again each interval.
// It is woken by events: Wake, a worker's end, a changed board, a time that has come; the interval is a safety net.
// It returns when every start that was under way is on record. Workers live on.
func (d *Dispatcher) Run(ctx context.Context) error {
	defer d.close()
	if !d.tuned().Kanban.Dispatch {
		d.stand(&Hold{Reason: DispatchOff, Detail: "kanban.dispatch is false", Since: when(time.Now()), Remedy: "set kanban.dispatch to true"})
		<-ctx.Done()
		return nil
	}
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	full := time.NewTicker(d.tuned().Kanban.Interval)
	defer full.Stop()
	if d.lead() {
		d.locked(ctx, true)
	}
	due := time.NewTimer(pollEvery)
	defer due.Stop()
	for ctx.Err() == nil {
		due.Reset(d.untilDue())
		select {
		case <-ctx.Done():
		case <-due.C:
			if d.leads() {
				d.locked(ctx, false)
			}
		case <-full.C:
			if d.lead() {
				d.locked(ctx, true)
			}
		case <-d.wake:
			if d.leads() {
				d.locked(ctx, false)
			}
		case <-poll.C:
			if d.leads() && d.changed() {
				d.locked(ctx, false)
			}
		}
	}
	return nil
}

// untilDue is how long it is until time alone changes something; a moment that has passed is left to the poll, so that a
// board that cannot be served does not make the loop spin.
func (d *Dispatcher) untilDue() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	wait := d.tuned().Kanban.Interval
	for _, b := range d.boards {
		if left := time.Until(b.due); !b.due.IsZero() && left > 0 {
			wait = min(wait, left)
		}
	}
	return wait
}

// locked is a tick under the lock. It does not wait for the workers it starts.
func (d *Dispatcher) locked(ctx context.Context, full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tick(ctx, full)
}

func (d *Dispatcher) leads() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leader != nil
}

// lead takes the root's lock, or says who has it, or why it cannot be had at all. Without it nothing is dispatched.
func (d *Dispatcher) lead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leader != nil {
		return true
	}
	lock, err := d.o.Root.TrySingletonLock()
	d.holder, _ = kanban.LockHolder(d.o.Root.SingletonLockPath())
	switch {
	case errors.Is(err, kanban.ErrHeld):
		d.follower()
		return false
	case err != nil:
		d.lockless(err)
		return false
	}
	if d.outside != nil {
		d.log.Info("dispatcher took over", "path", lock.Path())
	}
	d.leader, d.outside = lock, nil
	return true
}

// lockless: the lock cannot even be asked for. It is said when it begins and when its reason changes.
func (d *Dispatcher) lockless(err error) {
	path := d.o.Root.SingletonLockPath()
	detail, remedy := lockTrouble(path, err)
	if d.outside == nil || d.outside.Detail != detail {
		d.log.Error("dispatcher's lock cannot be taken; nothing is dispatched", "path", path, "error", err, "remedy", remedy)
	}
	d.outside = &Hold{Reason: NoDispatcher, Detail: detail, Since: d.outsideSince(NoDispatcher), Remedy: remedy}
	d.publish(newPass(time.Now(), false, nil))
}

// follower: another process leads; it is said once, and tried again each interval.
func (d *Dispatcher) follower() {
	detail := "another process dispatches on " + d.o.Root.Dir()
	if d.holder.PID != 0 {
		detail = fmt.Sprintf("process %d on %s dispatches on %s", d.holder.PID, d.holder.Host, d.o.Root.Dir())
	}
	if d.outside == nil || d.outside.Detail != detail {
		d.log.Info("another dispatcher leads; it is tried again each interval", "path", d.o.Root.SingletonLockPath(), "pid", d.holder.PID)
	}
	d.outside = &Hold{Reason: NotLeader, Detail: detail, Since: d.outsideSince(NotLeader), Remedy: "nothing: that process starts the cards, and this one takes over when it ends"}
	d.publish(newPass(time.Now(), false, nil))
}

func (d *Dispatcher) outsideSince(reason Reason) *time.Time {
	if d.outside != nil && d.outside.Reason == reason {
		return d.outside.Since
	}
	return when(time.Now())
}

func (d *Dispatcher) stand(h *Hold) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.outside = h
	d.enumerate(newPass(time.Now(), true, nil))
	d.publish(newPass(time.Now(), false, nil))
}

// changed looks, for about a microsecond a board, whether anything asks for a tick: a commit by anybody, a time
// that has come, a damaged file that was touched, a new board.
func (d *Dispatcher) changed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if d.listed.peek(d.o.Root.Dir()) {
		return true
	}
	for _, b := range d.boards {
		if b.asks(now) {
			return true
		}
	}
	return false
}

func (b *board) asks(now time.Time) bool {
	switch {
	case b.bad != nil:
		return b.bad.gate(sqlite.TakeFingerprint(b.path), now) != gateShut
	case !b.due.IsZero() && !now.Before(b.due):
		return true
	case b.trouble != nil:
		return false
	case b.handle == nil:
		return sqlite.TakeFingerprint(b.path).Main.There
	}
	stamp, err := b.handle.File().Stamp()
	return err != nil || !b.stamped || stamp != b.stamp
}
