package registry

import (
	"context"
	"errors"
	"time"

	"gatewayd/internal/problem"
)

// Keep is a standing reference: it holds a path's current generation open and follows it to the next one when a
// generation is lost or replaced. It is for files that stay open for the daemon's life. What a holder of the lost one
// was refused is not stored: it releases its reference, acquires again and writes again. It is safe for concurrent use.
type Keep[H Handle] struct {
	kind   *Kind[H]
	keeper *keeper
}

// keeper is a Keep as the registry's actor sees it. Its fields belong to the registry's lock.
type keeper struct {
	path   string // as it was asked for
	real   string // without links, of the last generation
	slot   *slot  // the standing reference; nil without one
	epoch  uint64
	gen    *generation
	lostAt time.Time // the last loss
	reopen func(context.Context) error

	healing bool          // its generation was lost, and no new one is open yet
	cancel  func()        // of the try that is under way; nil without one
	backoff               // between tries
	trouble error         // of the last try
	tried   chan struct{} // closed after the next try
	ended   bool
}

// Keep makes a standing reference for path. Nothing is opened before its first Acquire.
func (k *Kind[H]) Keep(path string) *Keep[H] {
	r := k.registry
	keep := &Keep[H]{kind: k, keeper: &keeper{path: path, tried: make(chan struct{})}}
	keep.keeper.reopen = func(ctx context.Context) error {
		ref, err := k.Acquire(ctx, path)
		if err == nil {
			keep.stand(ref)
			ref.Release()
		}
		return err
	}
	r.mu.Lock()
	r.keeps[keep.keeper] = struct{}{}
	r.mu.Unlock()
	return keep
}

// Acquire counts a reference on the generation that is open. While a lost one is being replaced it waits, within
// ctx: Run closes the old one for good, which makes its capture, and opens the next. The reference is the caller's
// to release. When ctx ends first, the error names the path and the last trouble.
func (keep *Keep[H]) Acquire(ctx context.Context) (Ref[H], error) {
	for {
		tried, _, resting := keep.health()
		if !resting {
			before := tried
			ref, err := keep.kind.Acquire(ctx, keep.keeper.path)
			if err == nil {
				keep.stand(ref)
				return ref, nil
			}
			healing := false
			if tried, healing, _ = keep.health(); ctx.Err() != nil || !healing && tried == before {
				return ref, err
			}
			if tried != before {
				continue // somebody's try ended since: the file may be open again
			}
		}
		select {
		case <-tried:
		case <-ctx.Done():
			return Ref[H]{}, keep.ended(ctx)
		}
	}
}

// Look counts a reference on the generation that is open and well, for who wants to know how things are: it opens
// nothing and waits for nothing. Without one, the error is that of Acquire.
func (keep *Keep[H]) Look() (Ref[H], error) {
	r, k := keep.kind.registry, keep.keeper
	r.mu.Lock()
	defer r.mu.Unlock()
	if g := k.gen; g != nil && !g.ended.Load() && !g.lost() {
		s, epoch := g.entry.take(g)
		return Ref[H]{s, epoch}, nil
	}
	return Ref[H]{}, k.notOpen(nil)
}

// ended is the error of a wait that was not long enough.
func (keep *Keep[H]) ended(ctx context.Context) error {
	r, k := keep.kind.registry, keep.keeper
	r.mu.Lock()
	defer r.mu.Unlock()
	return k.notOpen(context.Cause(ctx))
}

// notOpen says that a generation was lost and the next one is not there.
func (k *keeper) notOpen(cause error) error {
	return &problem.Error{
		Kind: problem.Unavailable, Thing: k.path, What: "was lost under its users and cannot be opened again yet", Fate: "nothing was changed",
		Remedy: "it is tried again by itself", Err: errors.Join(k.trouble, cause),
	}
}

// Release ends the standing reference. It may be called again.
func (keep *Keep[H]) Release() {
	r, k := keep.kind.registry, keep.keeper
	r.mu.Lock()
	delete(r.keeps, k)
	k.ended = true
	held := k.letGo()
	r.mu.Unlock()
	held.Release()
}

// health says whether the generation was lost, whether Run rests before it tries again, and gives the end of its
// next try.
func (keep *Keep[H]) health() (tried <-chan struct{}, healing, resting bool) {
	r, k := keep.kind.registry, keep.keeper
	r.mu.Lock()
	defer r.mu.Unlock()
	healing = k.healing || k.gen != nil && k.gen.lost()
	return k.tried, healing, k.healing && time.Now().Before(k.due)
}

// stand moves the standing reference to the generation of ref, which its holder keeps from ending meanwhile.
func (keep *Keep[H]) stand(ref Ref[H]) {
	r, k := keep.kind.registry, keep.keeper
	r.mu.Lock()
	g := ref.slot.gen.Load()
	if k.ended || g == k.gen || g.ended.Load() || g.lost() {
		r.mu.Unlock()
		return
	}
	held := k.letGo()
	k.slot, k.epoch = g.entry.take(g)
	k.gen, k.real, k.healing, k.trouble = g, g.entry.path, false, nil
	k.signal()
	r.mu.Unlock()
	held.Release()
}

// letGo takes the standing reference away, for the caller to release outside the lock.
func (k *keeper) letGo() Ref[Handle] {
	held := Ref[Handle]{k.slot, k.epoch}
	k.slot, k.gen = nil, nil
	return held
}

// giveUp: CloseAll took the file, which comes back at the next Acquire and not by itself.
func (k *keeper) giveUp() {
	if k.cancel != nil {
		k.cancel()
	}
	if k.healing {
		k.healing = false
		k.signal()
	}
}

// signal wakes who waits for a try.
func (k *keeper) signal() {
	close(k.tried)
	k.tried = make(chan struct{})
}
