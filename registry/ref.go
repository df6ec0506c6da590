package registry

import "runtime/debug"

// Ref is one counted reference. It is a value: copies stand for the same reference, and the first Release of
// any of them spends all of them. The zero Ref is spent.
type Ref[H Handle] struct {
	slot  *slot
	epoch uint64
}

// Handle gives the handle, or false when the reference is spent or CloseAll took its file away.
func (ref Ref[H]) Handle() (H, bool) {
	if ref.slot != nil {
		// The generation is read before the epoch is compared: it changes only after the epoch did.
		if g := ref.slot.gen.Load(); ref.slot.epoch.Load() == ref.epoch && g != nil && !g.ended.Load() {
			h, ok := g.handle.(H)
			return h, ok
		}
	}
	var none H
	return none, false
}

// Release gives the reference back; the last one of a generation closes its handle before it returns. Releasing
// a spent reference changes nothing and logs one warning.
func (ref Ref[H]) Release() {
	if ref.slot == nil {
		return
	}
	if !ref.slot.epoch.CompareAndSwap(ref.epoch, ref.epoch+1) {
		e := ref.slot.entry
		e.registry.log.Warn("reference released twice", "path", e.path, "stack", string(debug.Stack()))
		return
	}
	ref.slot.entry.registry.release(ref.slot)
}

// release runs once for each reference: the caller has won the epoch.
func (r *Registry) release(s *slot) {
	e := s.entry
	r.mu.Lock()
	g := s.gen.Load()
	delete(g.holders, s)
	e.free = append(e.free, s)
	g.refs--
	if g.refs > 0 || g.ended.Load() {
		r.mu.Unlock()
		return
	}
	e.drop(g)
	e.admit()
	r.tidy(e)
	r.mu.Unlock()
	_ = r.teardown(e, g.handle)
}
