package registry

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"gatewayd/internal/problem"
)

// Kind is one type of handle with the way to open it. A path belongs to one Kind while it is open.
type Kind[H Handle] struct {
	registry *Registry
	open     func(ctx context.Context, path string) (H, error)
}

// For makes the Kind whose handles are opened by open. It is given the resolved path; its context ends when the
// caller that happens to open stops waiting, so a handle must not keep it.
func For[H Handle](r *Registry, open func(ctx context.Context, path string) (H, error)) *Kind[H] {
	return &Kind[H]{registry: r, open: open}
}

// Acquire counts a reference on the current generation of path and opens one where there is none. It waits
// while the path is being opened by another or closed, bounded by ctx and the acquire timeout. An error of
// open is returned as it is and leaves nothing behind.
func (k *Kind[H]) Acquire(ctx context.Context, path string) (Ref[H], error) {
	r := k.registry
	r.mu.Lock()
	if e := r.names[path]; e != nil {
		if g := e.current; g != nil && g.kind == any(k) && !g.lost() {
			s, epoch := e.take(g)
			r.mu.Unlock()
			return Ref[H]{s, epoch}, nil
		}
	}
	r.mu.Unlock()
	return k.slow(ctx, path)
}

func (g *generation) lost() bool {
	return g.watch != nil && g.watch.Replaced() || g.loser != nil && g.loser.Lost()
}

func (k *Kind[H]) slow(ctx context.Context, path string) (Ref[H], error) {
	r := k.registry
	ctx, cancel := context.WithTimeout(ctx, r.acquireTimeout)
	defer cancel()
	resolved, err := resolve(path)
	if err != nil {
		return Ref[H]{}, err
	}
	for {
		ref, next := k.step(path, resolved)
		switch {
		case next.err != nil || ref.slot != nil:
			return ref, next.err
		case next.open:
			ref, err = k.openCurrent(ctx, next.entry, path)
		default:
			err = wait(ctx, next.wait, resolved, next.phase)
		}
		if err != nil || ref.slot != nil {
			return ref, err
		}
	}
}

// next is what a caller that got no reference has to do.
type next struct {
	entry *entry
	open  bool // it has the opening
	wait  <-chan struct{}
	phase string
	err   error
}

// step looks at the path once, under the lock. A live generation is handed out even while an older one is
// still closing: the barrier keeps new handles from opening, not users from the one that is open.
func (k *Kind[H]) step(name, path string) (Ref[H], next) {
	r := k.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return Ref[H]{}, next{err: &problem.Error{Kind: problem.Unavailable, Thing: path, What: "is not opened: the daemon is stopping"}}
	}
	e := r.paths[path]
	if e == nil {
		e = newEntry(r, path)
		r.paths[path] = e
	}
	if e.current != nil && e.current.lost() {
		r.retireLost(e)
	}
	switch g := e.current; {
	case g != nil && g.kind != any(k):
		return Ref[H]{}, next{err: fmt.Errorf("acquire %s: it is open as another kind of file", path)}
	case g != nil:
		return k.take(g, name), next{}
	case e.pending > 0:
		return Ref[H]{}, next{wait: e.lifted, phase: "closed"}
	case e.opening != nil:
		return Ref[H]{}, next{wait: e.opening, phase: "opened"}
	case e.blocked():
		return Ref[H]{}, next{wait: e.block(), phase: "healed"}
	}
	e.opening, e.doomed = make(chan struct{}), false
	return Ref[H]{}, next{entry: e, open: true}
}

// take counts a reference and remembers the name by which it was asked for. The caller holds the lock.
func (k *Kind[H]) take(g *generation, name string) Ref[H] {
	r := k.registry
	if filepath.IsAbs(name) && r.names[name] != g.entry {
		r.names[name] = g.entry
		g.entry.names = append(g.entry.names, name)
	}
	s, epoch := g.entry.take(g)
	return Ref[H]{s, epoch}
}

// publish ends an opening, however it went; g is nil where nothing was opened.
func (k *Kind[H]) publish(e *entry, g *generation, name string, ref *Ref[H]) {
	r := k.registry
	r.mu.Lock()
	close(e.opening)
	e.opening = nil
	unwanted := g != nil && (e.doomed || e.pending > 0 || r.closed)
	switch {
	case unwanted:
		e.admit()
	case g != nil:
		e.current = g
		*ref = k.take(g, name)
	}
	r.tidy(e)
	r.mu.Unlock()
	if unwanted {
		_ = r.teardown(e, g.handle)
	}
}

func wait(ctx context.Context, done <-chan struct{}, path, phase string) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return waitEnded(ctx, path, phase)
	}
}

func waitEnded(ctx context.Context, path, phase string) error {
	if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("acquire %s: while it is being %s: %w", path, phase, err)
	}
	return &problem.Error{
		Kind: problem.Unavailable, Thing: path, What: "is still being " + phase, Fate: "nothing was changed",
		Remedy: "try again; `gatewayd doctor` names what holds it", Err: context.Cause(ctx),
	}
}

// openCurrent opens a handle and publishes it with its first reference. If a close was admitted meanwhile, the
// handle is closed unseen and the Ref is the zero one: the caller looks again.
func (k *Kind[H]) openCurrent(ctx context.Context, e *entry, name string) (ref Ref[H], err error) {
	var g *generation
	defer func() { k.publish(e, g, name, &ref) }()
	select {
	case e.life <- struct{}{}:
	case <-ctx.Done():
		return ref, waitEnded(ctx, e.path, "closed")
	}
	defer func() { <-e.life }()
	handle, err := k.open(ctx, e.path)
	if err == nil {
		g = &generation{entry: e, kind: k, handle: handle}
		g.watch, _ = any(handle).(replaceable)
		g.loser, _ = any(handle).(loser)
	}
	return ref, err
}
