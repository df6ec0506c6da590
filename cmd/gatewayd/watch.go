package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"gatewayd/internal/homesocket"
	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// silence is how long a part may give no sign of life before the service manager is no longer told that all is well.
const silence = time.Minute

// probe is one part that is asked whether it lives. ended is closed when the part has been told to stop, or nil for
// one that others need to the last: its silence is order from then on, and the drain that follows may be long.
type probe struct {
	name  string
	ask   func(context.Context) error
	ended <-chan struct{}
}

// watch asks each part the way its users do, and feeds the service manager's watchdog while all of them answer.
func (d *daemon) watch(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	for _, p := range []probe{
		{"api", d.askAPI, d.apiStops},
		{"dispatcher", d.askDispatcher, d.dispatchStops},
		{"conversations", d.askConversations, nil},
		{"state.db", d.askState, nil},
	} {
		asking.Go(func() { d.follow(ctx, p) })
	}
	asking.Go(func() { d.welcome(ctx) })
	return d.watchdog.Run(ctx)
}

// welcome announces the daemon when its door is open: when the API answers and the conversations take messages.
func (d *daemon) welcome(ctx context.Context) {
	for d.knock(ctx, nil) != nil || !d.gateway.Open() {
		if wait(ctx, 20*time.Millisecond); ctx.Err() != nil || d.leaves() {
			return
		}
	}
	if !d.leaves() {
		d.announce()
		d.keepCounts(ctx)
	}
}

// leaves reports that the daemon has been told to stop.
func (d *daemon) leaves() bool {
	select {
	case <-d.apiStops:
		return true
	default:
		return false
	}
}

// follow asks one part until it or the daemon ends.
func (d *daemon) follow(ctx context.Context, p probe) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	d.watchdog.Probe(ctx, p.name, silence, p.ask)
}

// knockTime is how long a door that is not full may take to answer.
const knockTime = 3 * time.Second

// askAPI goes through the home's socket, which has no bound and leads into the same server. At the address all places may be taken, for
// as long as those who have them like: who waits there waits in order, and a restart would only cost the others their turns.
func (d *daemon) askAPI(ctx context.Context) error {
	switch {
	case mutation.On("full-house-is-silence"):
		return d.knock(ctx, nil)
	case d.socket != nil:
		return d.knock(ctx, func(ctx context.Context, _, _ string) (net.Conn, error) {
			return homesocket.Dial(ctx, d.config.Home, apiSocket)
		})
	case d.places.Full():
		return nil
	}
	bound, cancel := context.WithTimeout(ctx, knockTime)
	defer cancel()
	if err := d.knock(bound, nil); err != nil && !d.places.Full() {
		return err
	}
	return nil
}

// knock asks for something small, at the address where dial is nil, and through no proxy.
func (d *daemon) knock(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.listener.Addr().String()+"/health", nil)
	if err != nil {
		return err
	}
	self := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
	resp, err := self.Do(req)
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

// askState reads a row of the file through the reader that the API uses. A store that answers with an error, or is being opened anew, is in
// trouble of its own, told by /health, and starting this process again would not help it; one that does not answer hangs.
func (d *daemon) askState(ctx context.Context) error {
	store, release, err := d.store.now()
	if problem.Is(err, problem.Unavailable) {
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	err = store.File().Read(ctx, func(c *sqlite.Conn) error {
		var one int64
		_, err := c.Row("SELECT 1 FROM sqlite_schema LIMIT 1", nil, &one)
		return err
	})
	if _, answered := errors.AsType[*problem.Error](err); answered && ctx.Err() == nil {
		return nil
	}
	return err
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
