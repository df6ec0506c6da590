package reaper

import (
	"context"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

const (
	// spareRetry keeps a keeper that cannot start from being started in a loop.
	spareRetry = time.Second
	// stopLimit is what Run adds to a run's own grace when it ends what must not outlive the daemon.
	stopLimit = 3 * time.Second
)

// Run keeps a spare keeper warm and reaps orphans, until the context ends. Then it ends every run with Lifetime
// EndsWithDaemon, and its spares, and returns when their records are there and the keepers gone. Runs that outlive
// the daemon are left alone. Children can be started before Run, after it, and without it.
func (r *Reaper) Run(ctx context.Context) error {
	dead := make(chan os.Signal, 1)
	signal.Notify(dead, syscall.SIGCHLD)
	defer signal.Stop(dead)
	defer r.windUp()
	r.wantSpare()
	var retry, later <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-dead:
		case <-later:
		case <-r.refill:
			retry = r.fill()
			continue
		case <-r.spareDied:
			retry = time.After(spareRetry)
			continue
		case <-retry:
			retry = r.fill()
			continue
		}
		later = nil
		if r.reapUnknown() {
			later = time.After(zombieAge)
		}
	}
}

// windUp ends what must not outlive the daemon while it can still see the records being written.
func (r *Reaper) windUp() {
	r.mu.Lock()
	spares := r.pool
	r.pool, r.closed = nil, true
	var ending []*Process
	for _, p := range r.live {
		if p.lifetime == EndsWithDaemon && p.isReady() {
			ending = append(ending, p)
		}
	}
	r.mu.Unlock()
	for _, spare := range spares {
		spare.close()
	}
	limit := time.Now()
	for _, p := range ending {
		p.Stop(p.begun.Grace)
		if end := time.Now().Add(p.begun.Grace + stopLimit); end.After(limit) {
			limit = end
		}
	}
	for _, p := range ending {
		await(p.done, time.Until(limit))
	}
	for _, keeper := range append(spares, r.leaving()...) {
		await(keeper.exited, stopLimit)
	}
}

func (r *Reaper) leaving() []*keeperProc {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.exiting))
}

func await(done <-chan struct{}, limit time.Duration) {
	select {
	case <-done:
	case <-time.After(limit):
	}
}
