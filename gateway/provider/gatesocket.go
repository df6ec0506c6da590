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
	"gatewayd/internal/mutation"
)

// gateSocket is where the daemon of a home lets other processes of that home through its gates.
//
// The protocol is a line of JSON each way and one connection for each call, so that a process that dies gives its permit back by dying:
//
//	→ {"key":"4be1…","class":"worker","session":"s","concurrent":2,"per_minute":60}
//	← {"place":{"position":2,"waiting":3}}         each second of the wait
//	← {"go":true}                                  from here to the end of the connection the call has its permit
//	→ {"key":"4be1…","hold_ms":20000}              in place of the first line: the provider asked everybody to wait; answered by go
const gateSocket = "gate.sock"

const (
	gateDial    = time.Second
	gateSilence = 15 * time.Second // a daemon that says nothing for so long is not waited for
	gateLine    = 4 << 10
)

type gateAsk struct {
	Key        string      `json:"key"`
	Class      CallerClass `json:"class,omitempty"`
	Session    string      `json:"session,omitempty"`
	Concurrent int         `json:"concurrent,omitempty"`
	PerMinute  int         `json:"per_minute,omitempty"`
	HoldMS     int64       `json:"hold_ms,omitempty"`
}

type gateReply struct {
	Place *Place `json:"place,omitempty"`
	Go    bool   `json:"go,omitempty"`
}

// Gates are the gates of one home, one for each provider key. The daemon has them; other processes of the home join them. Safe for
// concurrent use.
type Gates struct {
	home string
	log  *slog.Logger

	mu     sync.Mutex
	queues map[string]*queue
}

// NewGates gives the gates of a home. Nobody else reaches them before Run. A nil log is none.
func NewGates(home string, log *slog.Logger) *Gates {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Gates{home: home, log: log, queues: map[string]*queue{}}
}

// Gate gives the one gate of a key. The limits are those of whoever asked first.
func (g *Gates) Gate(key string, limits Limits) Gate { return g.queue(key, limits) }

func (g *Gates) queue(key string, limits Limits) *queue {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.queues[key]
	if q == nil {
		q = newQueue(key, limits)
		q.shared = "the daemon and its workers"
		g.queues[key] = q
	}
	return q
}

// Stats gives all gates as they stand.
func (g *Gates) Stats() []GateStats {
	g.mu.Lock()
	queues := make([]*queue, 0, len(g.queues))
	for _, q := range g.queues {
		queues = append(queues, q)
	}
	g.mu.Unlock()
	var all []GateStats
	for _, q := range queues {
		all = append(all, q.Stats())
	}
	return all
}

// Run lets other processes of the home through until ctx ends. Only the holder of the home may run it. That the socket cannot be made is
// logged and no failure: workers then have gates of their own.
func (g *Gates) Run(ctx context.Context) error {
	socket, err := homesocket.Listen(ctx, g.home, gateSocket)
	if err != nil {
		g.log.Warn("gate not shared with workers", "path", filepath.Join(g.home, gateSocket), "error", err)
		<-ctx.Done()
		return nil
	}
	listener := homesocket.Own(socket, nil)
	defer func() { _ = homesocket.Remove(g.home, gateSocket) }() // before the home is let go: the next daemon makes its own
	var serving sync.WaitGroup
	defer serving.Wait()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil: // out of descriptors, most likely: it passes
			if !pause(ctx, 100*time.Millisecond, nil) {
				return nil
			}
		default:
			serving.Go(func() { g.serve(ctx, conn) })
		}
	}
}

// serve is one call of another process, from its question to the end of its connection.
func (g *Gates) serve(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetReadDeadline(time.Now().Add(gateSilence))
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 0, 256), gateLine)
	var ask gateAsk
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &ask) != nil || ask.Key == "" {
		return
	}
	q := g.queue(ask.Key, Limits{ask.Concurrent, ask.PerMinute})
	if ask.HoldMS > 0 {
		q.Hold(time.Now().Add(min(time.Duration(ask.HoldMS)*time.Millisecond, retryAfterCap)))
		_ = json.NewEncoder(conn).Encode(gateReply{Go: true})
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for lines.Scan() { // nothing more is expected; the end of the connection is what counts
		}
		cancel()
	}()
	defer func() { cancel(); <-gone }()
	say := json.NewEncoder(conn)
	permit, err := q.Enter(ctx, Caller{ask.Class, ask.Session}, func(p Place) {
		_ = conn.SetWriteDeadline(time.Now().Add(gateDial))
		if say.Encode(gateReply{Place: &p}) != nil {
			cancel()
		}
	})
	if err != nil {
		return
	}
	if !mutation.On("permit-outlives-its-process") {
		defer permit.Leave()
	}
	if say.Encode(gateReply{Go: true}) == nil {
		<-ctx.Done()
	}
}
