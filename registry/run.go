package registry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// Run is the registry's actor: until ctx ends it heals what was lost (heal.go), retries stranded closes and lets
// handles drop what is idle.
// Its last act is CloseAll, bounded by the close timeout; afterwards nothing is opened any more. The caller
// ends ctx only when everybody who uses files has ended.
func (r *Registry) Run(ctx context.Context) error {
	ticker := time.NewTicker(r.sweep)
	defer ticker.Stop()
	heal := time.NewTicker(healFirst)
	defer heal.Stop()
	for {
		select {
		case <-heal.C:
			r.heal(ctx)
		case <-r.kick:
			r.heal(ctx)
		case <-ticker.C:
			r.dropIdle()
			r.retryStranded() // its failures are logged and stay stranded; the next tick does not wait for them
		case <-ctx.Done():
			return r.shut(context.WithoutCancel(ctx))
		}
	}
}

func (r *Registry) shut(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.closeTimeout)
	defer cancel()
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	return r.CloseAll(ctx)
}

// Sweep does once what Run does at every tick, and gives the closes that failed again. It waits for them until
// ctx ends.
func (r *Registry) Sweep(ctx context.Context) error {
	r.dropIdle()
	var failed error
	for _, result := range r.retryStranded() {
		select {
		case err := <-result:
			failed = errors.Join(failed, err)
		case <-ctx.Done():
			return errors.Join(failed, context.Cause(ctx))
		}
	}
	return failed
}

// retryStranded begins to close again what could not be closed. It is a close like any other: admitted to the
// barrier, so that nobody opens the path meanwhile, and each path on its own, so that one that hangs holds up no other.
func (r *Registry) retryStranded() []<-chan error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var results []<-chan error
	for _, e := range r.paths {
		handles := e.stranded
		if e.stranded = nil; len(handles) > 0 {
			results = append(results, r.begin(e, handles))
		}
	}
	return results
}

// dropIdle pins each current generation with a reference while it works on it, as any user would.
func (r *Registry) dropIdle() {
	r.mu.Lock()
	var pins []Ref[Handle]
	for _, e := range r.paths {
		if e.current == nil {
			continue
		}
		if _, can := e.current.handle.(idler); can {
			s, epoch := e.take(e.current)
			pins = append(pins, Ref[Handle]{s, epoch})
		}
	}
	r.mu.Unlock()
	for _, pin := range pins {
		if h, ok := pin.Handle(); ok {
			h.(idler).DropIdle()
		}
		pin.Release()
	}
}

// Stats is what the registry holds now, by path.
type Stats struct {
	Paths []PathStats `json:"paths"`
}

// PathStats is one path. Generations counts the current one and those that drain; Stranded are handles whose
// close failed and which count as holders of the file.
type PathStats struct {
	Path        string `json:"path"`
	References  int    `json:"references"`
	Generations int    `json:"generations"`
	Retired     int    `json:"retired"`
	Closing     int    `json:"closing"`
	Stranded    int    `json:"stranded"`
	Opening     bool   `json:"opening,omitempty"`
}

// Stats takes a picture, sorted by path.
func (r *Registry) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	stats := Stats{Paths: []PathStats{}}
	for _, e := range r.paths {
		stats.Paths = append(stats.Paths, e.stats())
	}
	slices.SortFunc(stats.Paths, func(a, b PathStats) int { return strings.Compare(a.Path, b.Path) })
	return stats
}

func (e *entry) stats() PathStats {
	p := PathStats{
		Path: e.path, Generations: len(e.retired), Retired: len(e.retired),
		Closing: e.pending, Stranded: len(e.stranded), Opening: e.opening != nil,
	}
	for _, g := range e.retired {
		p.References += g.refs
	}
	if e.current != nil {
		p.Generations++
		p.References += e.current.refs
	}
	return p
}
