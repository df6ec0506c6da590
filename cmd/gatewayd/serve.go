package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/oklog/run"
)

// serve is the daemon. Everything that runs for long is an actor of the one group below.
//
//	             SIGTERM, Ctrl-C                     HTTP, SSE                 wake: event, due time, 60 s
//	                   │                                 │                               │
//	             ┌─────▼─────┐                     ┌─────▼─────┐                   ┌─────▼──────┐
//	             │  signals  │                     │    api    │──── why, status ──▶ dispatcher │
//	             └───────────┘                     └─────┬─────┘                   └──┬──────┬──┘
//	                                                     │ Say                claims  │      │ start, adopt, stop
//	┌───────────┐  ┌─────────────┐  ┌──────────┐  ┌──────▼────────┐          and ends │      │
//	│ watchdog  │  │ maintenance │  │ notifier │──▶ conversations │─── terminal ───┐  │      │
//	└───────────┘  └──────┬──────┘  └────┬─────┘  └──────┬────────┘                │  │      │
//	 feeds systemd        │ index,       │ outbox to     │ rows                  ┌─▼──▼──────▼─┐
//	                      │ backups      │ webhooks      │                       │   reaper    │──▶ keepers
//	                ┌─────▼──────────────▼───────────────▼──────────┐            └─────────────┘
//	                │ registry: state.db, kanban.db, boards/*       │
//	                └───────────────────────────────────────────────┘
//
// Beside them runs keeps the events of turns that nobody waits for, mcp keeps the MCP servers whose tools the conversations use, and the gate lets workers of this home wait for the model's provider in one queue with the conversations.
//
// The order below is the order of being told to stop. Conversations drain while the API still delivers their
// last words; what others stand on (watchdog, reaper, registry) ends when they have ended. Closing every file is
// the registry's last act; then the home's lock goes.
func (c *cli) serve(ctx context.Context) (err error) {
	d, err := c.build(ctx)
	if errors.Is(err, errAskedToStop) {
		return nil
	}
	if err != nil {
		return refusedStart(err)
	}
	defer d.unlock()

	var g run.Group
	ended := lineup(&g, d.log, []actor{
		{name: "signals", run: d.signals},
		{name: "dispatcher", run: d.dispatch},
		{name: "api", run: d.listen},
		{name: "conversations", run: d.converse},
		{name: "gate", run: d.gates.Run},
		{name: "notifier", run: d.notifier.Run},
		{name: "runs", run: d.runs.Run, outlasts: true}, // until the last turn has told its run how it ended
		{name: "maintenance", run: d.maintain, outlasts: true},
		{name: "mcp", run: d.servers.Run, outlasts: true},
		{name: "watchdog", run: d.watch, outlasts: true},
		{name: "reaper", run: d.reaper.Run, outlasts: true},
		{name: "registry", run: d.registry.Run, outlasts: true},
	})
	d.begin()
	err = g.Run()
	ended.Wait()
	d.reloads.Wait()
	d.leave.end()
	d.log.Info("stopped", "uptime", time.Since(d.started).Round(time.Millisecond).String())
	return d.over(err)
}

// echo is how long after the first signal another one is the same request: `timeout` and some shells send to the
// process and to its group. Nobody presses Ctrl-C twice that fast.
const echo = 100 * time.Millisecond

// hangup is where SIGHUP goes: it asks for the configuration to be read again, but on a terminal it says that the terminal goes.
func (d *daemon) hangup() chan os.Signal {
	if d.foreground && isTerminal(d.std.in) {
		return d.asked
	}
	return d.hangups
}

// signals ends the group on SIGINT or SIGTERM, and on SIGUSR1 with the code that asks to be started again. A second signal does not wait for anybody: work that is under way is
// recovered at the next start exactly as after a power cut. SIGHUP has the configuration read again, SIGUSR2 has the stacks written down.
func (d *daemon) signals(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			signal.Stop(d.asked)
			return nil
		case <-d.hangups:
			d.reloads.Go(func() { d.reloadAsked(ctx) }) // beside, so that a stop need not wait for it
		case <-d.dumps:
			d.dumpStacks("asked by SIGUSR2")
		case sig := <-d.asked:
			d.log.Info("stopping", "signal", sig.String(), "grace", d.config.Agent.ShutdownGrace.String(), "again", "a second signal stops at once")
			d.stopping(sig)
			_ = d.notify.Stopping() // a manager that does not hear it waits for the end all the same
			d.leave = d.takeLeave()
			go d.secondSignal(time.Now())
			return nil
		}
	}
}

// secondSignal ends the process when a signal comes that is no echo of the first.
func (d *daemon) secondSignal(first time.Time) {
	sig := <-d.asked
	for time.Since(first) < echo {
		sig = <-d.asked
	}
	fmt.Fprintf(d.std.err, "gatewayd: second %v: stopped at once; the next start recovers what was under way\n", sig)
	os.Exit(exitFailed)
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

// maintain follows the transcripts with the search index and makes the backups. It ends after all who write, so it is
// the one to let go of the daemon's hold on the store.
func (d *daemon) maintain(ctx context.Context) error {
	defer d.store.release()
	var chores sync.WaitGroup
	defer chores.Wait()
	chores.Go(func() { d.keepBackups(ctx) })
	chores.Go(func() { d.forgetRequests(ctx) })
	for ctx.Err() == nil {
		if err := d.index(ctx); err != nil {
			d.log.Debug("search index has no store to follow yet", "error", err)
			wait(ctx, time.Second)
		}
	}
	return nil
}

// forgetEvery is how often what is remembered of requests is looked through; it is kept for a day.
const forgetEvery = 10 * time.Minute

// forgetRequests lets go what is remembered of requests for longer than promised.
func (d *daemon) forgetRequests(ctx context.Context) {
	for ; ctx.Err() == nil; wait(ctx, forgetEvery) {
		if _, err := d.store.ExpireOnce(ctx); err != nil && ctx.Err() == nil {
			d.log.Debug("remembered requests not looked through", "error", err)
		}
	}
}

// index follows one generation of the store, until ctx ends or the store has to be closed and opened anew.
func (d *daemon) index(ctx context.Context) error {
	store, release, err := d.store.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watching.Go(func() {
		for !store.Replaced() && !store.Lost() && ctx.Err() == nil {
			wait(ctx, time.Second)
		}
		cancel()
	})
	return store.RunIndexer(ctx)
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
