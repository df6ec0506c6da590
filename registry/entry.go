package registry

import (
	"runtime/debug"
	"sync/atomic"
)

// entry is everything about one resolved path. Its fields belong to the registry's lock, except life.
type entry struct {
	registry *Registry
	path     string
	names    []string      // keys in Registry.names that lead here
	current  *generation   // what Acquire hands out
	retired  []*generation // replaced on disk, draining by their own references
	stranded []Handle      // closed with an error, still open as far as anybody knows
	trouble  string        // of the last close; empty when it worked

	opening chan struct{} // not nil while one caller opens; closed when it is done
	doomed  bool          // CloseAll came during the opening: its handle must not be published

	// The barrier: closes that were admitted and have not settled. lifted is closed when the last has.
	pending int
	lifted  chan struct{}

	// life is held around each physical open and close of the path. It is a channel because an opener stops
	// waiting for it when its context ends.
	life chan struct{}

	cleared chan struct{} // not nil while somebody waits for the end of a lost generation; closed then
	again   backoff       // of closes of lost generations that failed

	free []*slot // spent slots, to be used again
}

// generation is one lifetime of a handle.
type generation struct {
	entry   *entry
	kind    any // the *Kind that opened it
	handle  Handle
	watch   replaceable // the handle, if it can tell
	loser   loser       // the same
	refs    int
	retired bool
	ended   atomic.Bool // CloseAll took it from its holders: their references are void

	holders map[*slot][]byte // the stacks of those who hold it; nil unless Options.Trace
}

// slot is the place behind a Ref. Its epoch goes up by one when the reference is released, which makes every
// copy of that Ref spent; then the slot serves the next one.
type slot struct {
	entry *entry
	epoch atomic.Uint64
	gen   atomic.Pointer[generation]
}

func newEntry(r *Registry, path string) *entry {
	return &entry{registry: r, path: path, life: make(chan struct{}, 1)}
}

// take counts one more reference. The caller holds the lock.
func (e *entry) take(g *generation) (*slot, uint64) {
	g.refs++
	var s *slot
	if n := len(e.free); n > 0 {
		s, e.free = e.free[n-1], e.free[:n-1]
	} else {
		s = &slot{entry: e}
		s.epoch.Store(1) // so that a zero Ref matches nothing
	}
	s.gen.Store(g)
	if e.registry.trace {
		g.note(s)
	}
	return s, s.epoch.Load()
}

// note keeps the stack of an Acquire.
func (g *generation) note(s *slot) {
	if g.holders == nil {
		g.holders = map[*slot][]byte{}
	}
	g.holders[s] = debug.Stack()
}

// admit adds one close to the barrier. The caller holds the lock and, in the same critical section, has taken
// away what will be closed.
func (e *entry) admit() {
	if e.pending == 0 {
		e.lifted = make(chan struct{})
	}
	e.pending++
}

// retire makes room for a successor of the current generation.
func (e *entry) retire() {
	e.current.retired = true
	e.retired = append(e.retired, e.current)
	e.current = nil
}

// drop takes a generation without references off the path, and out of the spent slots, which would keep its
// handle in memory.
func (e *entry) drop(g *generation) {
	for _, s := range e.free {
		s.gen.CompareAndSwap(g, nil)
	}
	if e.current == g {
		e.current = nil
		return
	}
	for i, other := range e.retired {
		if other == g {
			e.retired = append(e.retired[:i], e.retired[i+1:]...)
			return
		}
	}
}

// settled ends one admitted close; a handle that is not closed joins the stranded. The caller holds the lock.
func (r *Registry) settled(e *entry, h Handle, closed bool) {
	if !closed {
		e.stranded = append(e.stranded, h)
	}
	if e.pending--; e.pending == 0 {
		close(e.lifted)
		e.lifted = nil
	}
	r.tidy(e)
}

// tidy forgets names without a current generation, so that links are followed anew, and paths without anything.
func (r *Registry) tidy(e *entry) {
	e.unblock()
	if e.current != nil {
		return
	}
	for _, name := range e.names {
		if r.names[name] == e {
			delete(r.names, name)
		}
	}
	e.names = nil
	if len(e.retired) == 0 && len(e.stranded) == 0 && e.pending == 0 && e.opening == nil && r.paths[e.path] == e {
		delete(r.paths, e.path)
	}
}
