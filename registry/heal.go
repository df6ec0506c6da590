package registry

import (
	"context"
	"time"
)

// The back-off of healing. Another process may hold the lost files for long, and a stranger who deletes them may do
// so again.
const (
	healFirst   = time.Second
	healLongest = time.Minute
)

// backoff spaces tries.
type backoff struct {
	wait time.Duration
	due  time.Time
}

func (b *backoff) failed(now time.Time) {
	b.wait = min(max(2*b.wait, healFirst), healLongest)
	b.due = now.Add(b.wait)
}

func (b *backoff) well() { *b = backoff{} }

// heal goes once over everything that was lost: it lets go of it, closes again what could not be closed, and opens
// the next generation where a Keep wants one and nothing of the lost one is left. It does not wait for any of it.
func (r *Registry) heal(ctx context.Context) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.paths {
		if e.current != nil && e.current.lost() {
			r.retireLost(e)
		}
		if e.hasLostStranded() && e.pending == 0 && !now.Before(e.again.due) {
			e.again.failed(now) // until it has worked
			handles := e.stranded
			e.stranded = nil
			r.begin(e, handles)
		}
	}
	for k := range r.keeps {
		r.healKeep(ctx, k, now)
	}
}

// retireLost takes a generation that lost its files off the path.
func (r *Registry) retireLost(e *entry) {
	r.log.Warn("file was lost or replaced under its users; it is opened anew", "path", e.path, "references", e.current.refs)
	e.retire()
	r.tidy(e)
	r.kickHeal()
}

// healKeep does what one standing reference needs now.
func (r *Registry) healKeep(ctx context.Context, k *keeper, now time.Time) {
	if k.gen != nil && k.gen.ended.Load() {
		k.letGo()
	}
	if k.gen != nil && k.gen.lost() {
		if now.Sub(k.lostAt) > healLongest {
			k.well() // the first for long: at once
		} else {
			k.failed(now)
		}
		k.healing, k.lostAt = true, now
		held := k.letGo()
		go held.Release() // its close makes the capture
	}
	if !k.healing || k.cancel != nil || now.Before(k.due) {
		return
	}
	ctx, k.cancel = context.WithCancel(ctx)
	go r.tryHeal(ctx, k)
}

// tryHeal opens the next generation, or learns why it cannot be opened yet.
func (r *Registry) tryHeal(ctx context.Context, k *keeper) {
	err := k.reopen(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := ctx.Err() != nil
	k.cancel()
	k.cancel = nil
	switch {
	case err == nil:
		r.log.Info("file is open again", "path", k.path)
	case k.healing && !ended:
		if k.trouble == nil || k.trouble.Error() != err.Error() {
			r.log.Warn("file cannot be opened again yet", "path", k.path, "error", err)
		}
		k.trouble = err
		k.failed(time.Now())
		k.signal()
	}
}

// kickHeal has Run heal now instead of at its next tick.
func (r *Registry) kickHeal() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// blocked: files that were lost are still open here. A successor beside them would split the database in two.
func (e *entry) blocked() bool {
	for _, g := range e.retired {
		if g.loser != nil && g.loser.Lost() {
			return true
		}
	}
	return e.hasLostStranded()
}

func (e *entry) hasLostStranded() bool {
	for _, h := range e.stranded {
		if l, ok := h.(loser); ok && l.Lost() {
			return true
		}
	}
	return false
}

// block gives the end of what blocks. The caller holds the lock.
func (e *entry) block() <-chan struct{} {
	if e.cleared == nil {
		e.cleared = make(chan struct{})
	}
	return e.cleared
}

// unblock tells who waits that nothing of a lost generation is left.
func (e *entry) unblock() {
	if !e.hasLostStranded() && e.pending == 0 {
		e.again.well()
	}
	if e.cleared != nil && !e.blocked() {
		close(e.cleared)
		e.cleared = nil
	}
}
