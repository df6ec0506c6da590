package provider

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"gatewayd/internal/homesocket"
)

// Guest is a process that joins the gates of its home's daemon.
type Guest struct {
	home string
	log  *slog.Logger
	own  *Gates
}

// JoinGates gives the gates of a home to a process beside its daemon. Where no daemon answers, gates of its own take their place, call by
// call: nobody ever waits for a daemon to come back.
func JoinGates(home string, log *slog.Logger) *Guest {
	own := NewGates(home, log)
	return &Guest{home: home, log: own.log, own: own}
}

// Gate gives the gate of a key.
func (g *Guest) Gate(key string, limits Limits) Gate {
	return &joined{guest: g, ask: gateAsk{Key: key, Concurrent: limits.Concurrent, PerMinute: limits.PerMinute}, own: g.own.queue(key, limits)}
}

// joined is one gate of the daemon, seen from another process.
type joined struct {
	guest *Guest
	ask   gateAsk
	own   *queue

	mu    sync.Mutex
	alone bool // the last call found no daemon
}

// gateTries: once more for a daemon that is just being restarted, then alone.
const gateTries = 2

// Enter waits for the daemon's permit, or for one of its own.
func (j *joined) Enter(ctx context.Context, caller Caller, tell func(Place)) (Permit, error) {
	var err error
	for range gateTries {
		var permit Permit
		if permit, err = j.enter(ctx, caller, tell); err == nil {
			j.told(nil)
			return permit, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	j.told(err)
	return j.own.Enter(ctx, caller, tell)
}

// told logs when the daemon's gate is lost and when it is there again.
func (j *joined) told(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if alone := err != nil; alone != j.alone {
		j.alone = alone
		j.guest.log.Info("gate shared with the daemon", "shared", !alone, "path", filepath.Join(j.guest.home, gateSocket), "error", err)
	}
}

func (j *joined) enter(ctx context.Context, caller Caller, tell func(Place)) (Permit, error) {
	ask := j.ask
	ask.Class, ask.Session = caller.Class, caller.Session
	conn, err := j.guest.send(ctx, ask)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 0, 256), gateLine)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(gateSilence))
		var reply gateReply
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &reply) != nil {
			stop()
			_ = conn.Close()
			return nil, errors.Join(errors.New("the daemon's gate went away"), lines.Err())
		}
		switch {
		case reply.Go:
			if !stop() { // the caller has left at the same moment
				_ = conn.Close()
				return nil, context.Cause(ctx)
			}
			return &permit{leave: func() { _ = conn.Close() }}, nil
		case reply.Place != nil && tell != nil:
			tell(*reply.Place)
		}
	}
}

// Hold tells the daemon, and itself in case there is none.
func (j *joined) Hold(until time.Time) {
	j.own.Hold(until)
	ask := j.ask
	if ask.HoldMS = time.Until(until).Milliseconds(); ask.HoldMS <= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), gateDial)
	defer cancel()
	conn, err := j.guest.send(ctx, ask)
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(gateDial))
	bufio.NewScanner(conn).Scan() // the daemon has heard it
}

// Stats is what this process knows; the whole queue is in the daemon.
func (j *joined) Stats() GateStats {
	s := j.own.Stats()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.alone {
		s.Shared = "the daemon"
	}
	return s
}

// send opens a connection and writes the first line.
func (g *Guest) send(ctx context.Context, ask gateAsk) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, gateDial)
	defer cancel()
	conn, err := homesocket.Dial(ctx, g.home, gateSocket)
	if err != nil {
		return nil, err
	}
	_ = conn.SetWriteDeadline(time.Now().Add(gateDial))
	if err := json.NewEncoder(conn).Encode(ask); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}
