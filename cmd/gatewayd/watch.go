package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"gatewayd/internal/sqlite"
)

// silence is how long a part may give no sign of life before the service manager is no longer told that all is
// well. It is longer than the longest stop, so that a drain is never taken for a hang.
const silence = time.Minute

// watch asks each part the way its users do, and feeds the service manager's watchdog while all of them answer.
func (d *daemon) watch(ctx context.Context) error {
	var probes sync.WaitGroup
	defer probes.Wait()
	for name, ask := range map[string]func(context.Context) error{
		"api": d.askAPI, "conversations": d.askConversations, "state.db": d.askState, "dispatcher": d.askDispatcher,
	} {
		probes.Go(func() { d.watchdog.Probe(ctx, name, silence, ask) })
	}
	return d.watchdog.Run(ctx)
}

// askAPI goes through the listener, like any client.
func (d *daemon) askAPI(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.listener.Addr().String()+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// askConversations takes the lock that every message takes.
func (d *daemon) askConversations(context.Context) error {
	d.gateway.Status()
	return nil
}

// askState reads one row through the reader that the API uses.
func (d *daemon) askState(ctx context.Context) error {
	store, err := d.store()
	if err != nil {
		return err
	}
	return store.File().Read(ctx, func(c *sqlite.Conn) error {
		var one int64
		_, err := c.Row("SELECT 1", nil, &one)
		return err
	})
}

// askDispatcher wants ticks to be no older than two of the slowest kind.
func (d *daemon) askDispatcher(context.Context) error {
	last := d.dispatcher.Status().LastTick
	if !d.config.Kanban.Dispatch {
		return nil
	}
	began := d.started
	if last != nil {
		began = *last
	}
	if quiet := time.Since(began); quiet > 2*d.config.Kanban.Interval+silence {
		return fmt.Errorf("no tick for %v", quiet.Round(time.Second))
	}
	return nil
}
