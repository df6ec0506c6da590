package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/oklog/run"

	"gatewayd/internal/problem"
)

// serve is the daemon. Everything that runs for long is an actor of the one group below.
//
//	             SIGTERM, Ctrl-C                     HTTP, SSE                 wake: event, due time, 60 s
//	                   │                                 │                               │
//	             ┌─────▼─────┐                     ┌─────▼─────┐                   ┌─────▼──────┐
//	             │  signals  │                     │    api    │──── why, status ──▶ dispatcher │
//	             └───────────┘                     └─────┬─────┘                   └──┬──────┬──┘
//	                                                     │ Say                claims  │      │ start, adopt, stop
//	┌───────────┐  ┌─────────────┐                ┌──────▼────────┐          and ends │      │
//	│ watchdog  │  │ maintenance │                │ conversations │─── terminal ───┐  │      │
//	└───────────┘  └──────┬──────┘                └──────┬────────┘                │  │      │
//	 feeds systemd        │ index, sweep          rows   │                       ┌─▼──▼──────▼─┐
//	                ┌─────▼──────────────────────────────▼──────────┐            │   reaper    │──▶ keepers
//	                │ registry: state.db, kanban.db, boards/*       │            └─────────────┘
//	                └───────────────────────────────────────────────┘
//
// The order below is the order of being told to stop. Conversations drain while the API still delivers their
// last words; what others stand on (watchdog, reaper, registry) ends when they have ended. Closing every file is
// the registry's last act; then the home's lock goes.
func (c *cli) serve(ctx context.Context) (err error) {
	d, err := c.build(ctx)
	if err != nil {
		return err
	}
	defer d.unlock()
	signal.Notify(d.asked, os.Interrupt, syscall.SIGTERM) // before anybody is told that it is ready

	var g run.Group
	ended := lineup(&g, d.log, []actor{
		{name: "signals", run: d.signals},
		{name: "dispatcher", run: d.dispatch},
		{name: "api", run: d.listen},
		{name: "conversations", run: d.gateway.Run},
		{name: "maintenance", run: d.maintain, outlasts: true},
		{name: "watchdog", run: d.watch, outlasts: true},
		{name: "reaper", run: d.reaper.Run, outlasts: true},
		{name: "registry", run: d.registry.Run, outlasts: true},
	})
	d.announce()
	err = g.Run()
	ended.Wait()
	d.log.Info("stopped", "uptime", time.Since(d.started).Round(time.Millisecond).String())
	return err
}

// echo is how long after the first signal another one is the same request: `timeout` and some shells send to the
// process and to its group. Nobody presses Ctrl-C twice that fast.
const echo = 100 * time.Millisecond

// signals ends the group on SIGINT or SIGTERM, and when only a new start can mend what is wrong. A second signal does
// not wait for anybody: work that is under way is recovered at the next start exactly as after a power cut.
func (d *daemon) signals(ctx context.Context) error {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			signal.Stop(d.asked)
			return nil
		case sig := <-d.asked:
			d.log.Info("stopping", "signal", sig.String(), "grace", d.config.Agent.ShutdownGrace.String(), "again", "a second signal stops at once")
			_ = d.notify.Stopping() // a manager that does not hear it waits for the end all the same
			go d.secondSignal(time.Now())
			return nil
		case <-look.C:
			if err := d.worn(); err != nil {
				signal.Stop(d.asked)
				return err
			}
		}
	}
}

// secondSignal ends the process when a signal comes that is no echo of the first.
func (d *daemon) secondSignal(first time.Time) {
	sig := <-d.asked
	for time.Since(first) < echo {
		sig = <-d.asked
	}
	fmt.Fprintf(os.Stderr, "gatewayd: second %v: stopped at once; the next start recovers what was under way\n", sig)
	os.Exit(exitFailed)
}

// worn says what only a new start can mend. The conversations stand on one open state.db for the daemon's life: when
// another file lies at its path, or its -wal was lost, nothing can be said any more, and a daemon that stays and
// refuses is worse than one that its supervisor starts again. It asks a flag.
func (d *daemon) worn() error {
	store, err := d.store()
	if err != nil || !store.Replaced() && !store.Lost() {
		return nil // a store that is closed is a stop that has begun
	}
	return &problem.Error{
		Kind: problem.Restart, Thing: "state.db (" + storePath(d.config.Config) + ")", What: "is not the file that was opened any more",
		Fate: "what was acknowledged is in the file that was opened", Remedy: "start gatewayd again: it opens what lies there now",
	}
}

// dispatch hands ready cards to workers, unless the configuration says that somebody else does.
func (d *daemon) dispatch(ctx context.Context) error {
	if !d.config.Kanban.Dispatch {
		<-ctx.Done()
		return nil
	}
	defer close(d.dispatchStops)
	return d.dispatcher.Run(ctx)
}

// maintain follows the transcripts with the search index. It ends after all who write them, so it is the one to
// let go of the daemon's hold on the store.
func (d *daemon) maintain(ctx context.Context) error {
	defer d.state.Release()
	store, err := d.store()
	if err != nil {
		return err
	}
	return store.RunIndexer(ctx)
}
