package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// Defaults of Options, each with its reason.
const (
	DefaultIterations = 90                // a long task's worth; a loop that needs more is lost
	DefaultStall      = 600 * time.Second // longer than the longest silence of a slow local model before its first token
	DefaultGrace      = 20 * time.Second  // most turns end within it, and a supervisor's stop timeout is longer
	DefaultLeaseTTL   = 300 * time.Second // two renewals may fail before a turn is lost
	DefaultMailbox    = 32                // more messages than this waiting in one conversation is a loop between machines
	writeTimeout      = 75 * time.Second  // above the store's own patience for a transcript (60 s), which explains the failure better
	stopTimeout       = 15 * time.Second  // what a tool may take to stop once it was told; above reaper's TERM, grace and KILL

	// DefaultSystemPrompt is for sessions that bring none. It holds nothing that changes: it is a part of every request's prefix.
	DefaultSystemPrompt = "You are the assistant of gatewayd, running on the user's own machine. Be accurate and brief. " +
		"Use the tools you are given when they help; say plainly when something failed, and never claim an effect you did not see."
)

// Options configure a Gateway. Store and Model are needed; every other zero value works.
type Options struct {
	Store Store
	Model provider.Model
	Tools *tool.Set    // nil: no tools
	Log   *slog.Logger // nil: slog.Default

	Terminal      tool.Mode     // tools.terminal, for every known source; empty means deny
	Files         tool.Mode     // tools.files, likewise
	Spill         *tool.Spill   // keeps results that are too large for a row; nil: they are cut
	Dir           string        // where tools work unless a message says otherwise
	SystemPrompt  string        // for sessions that bring none; empty means DefaultSystemPrompt
	MaxIterations int           // calls of the model in one turn; 0 means DefaultIterations
	StallTimeout  time.Duration // without any sign of life the turn is ended; 0 means DefaultStall, negative never
	Grace         time.Duration // what running turns get when Run's context ends; 0 means DefaultGrace, negative none
	LeaseTTL      time.Duration // 0 means DefaultLeaseTTL; renewed at a third of it
	Mailbox       int           // messages that may wait in one conversation; 0 means DefaultMailbox

	// Sole says that the caller holds the home's lock: a turn lease that another daemon took is then known to be dead, also where
	// its process cannot be looked up (a container started anew).
	Sole bool
}

// Gateway holds the conversations. It is safe for concurrent use.
type Gateway struct {
	opts   Options
	log    *slog.Logger
	holder func(turn string) (sessiondb.Holder, error)

	mu            sync.Mutex
	conversations map[string]*conversation
	draining      bool
	idle          chan struct{} // closed when draining and no conversation is left
	turns         int64
	failed        int64
	interrupted   int64
}

// New makes a Gateway. It serves from now on, until Run's context ends.
func New(opts Options) *Gateway {
	opts = opts.withDefaults()
	g := &Gateway{
		opts: opts, log: opts.Log, holder: func(turn string) (sessiondb.Holder, error) { return sessiondb.SelfHolder(holderLabel(opts.Sole, turn)) },
		conversations: map[string]*conversation{}, idle: make(chan struct{}),
	}
	opts.Tools.Connect(func(ctx context.Context, session, uid, text string) error {
		return g.Tell(ctx, Told{Session: session, UID: uid, Text: text, Wake: true})
	})
	return g
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.SystemPrompt == "" {
		o.SystemPrompt = DefaultSystemPrompt
	}
	orDefault(&o.MaxIterations, DefaultIterations)
	orDefault(&o.StallTimeout, DefaultStall)
	orDefault(&o.Grace, DefaultGrace)
	orDefault(&o.LeaseTTL, DefaultLeaseTTL)
	orDefault(&o.Mailbox, DefaultMailbox)
	return o
}

func orDefault[T int | time.Duration](value *T, fallback T) {
	if *value == 0 {
		*value = fallback
	}
}

// Run serves until ctx ends. Then new messages are refused, those that wait are refused too, running turns get the grace and are
// ended with cause Drain after it, and Run returns nil when every conversation has written its rows and ended.
func (g *Gateway) Run(ctx context.Context) error {
	<-ctx.Done()
	running := g.drain()
	if running > 0 {
		g.log.Info("conversations draining", "running", running, "grace", g.opts.Grace.String())
	}
	grace := time.NewTimer(max(g.opts.Grace, 0))
	defer grace.Stop()
	select {
	case <-g.idle:
		return nil
	case <-grace.C:
	}
	g.interruptAll(Drain)
	<-g.idle
	return nil
}

// drain closes the door and gives the number of turns that still run.
func (g *Gateway) drain() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.draining {
		return 0
	}
	g.draining = true
	for _, c := range g.conversations {
		for _, j := range c.box {
			j.refuse(errDraining())
		}
		c.box = nil
	}
	if len(g.conversations) == 0 {
		close(g.idle)
	}
	return len(g.conversations)
}

func (g *Gateway) interruptAll(cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.conversations {
		c.interrupt(cause)
	}
}

// Say runs one turn of a conversation and returns when it has ended and its rows are stored. It waits its place behind the turns
// before it. An error (*problem.Error) means that the turn did not begin and nothing of this message was stored (with
// sessiondb.ErrSpooled it is kept beside the store, and is not to be sent again); what went wrong later is in the Result. When ctx
// ends the turn is interrupted (ClientGone, unless ctx carries a cause of this package). The sink gets the turn's events from one
// goroutine, in order, all of them before Say returns; it may be nil.
func (g *Gateway) Say(ctx context.Context, say Say, sink func(Event)) (Result, error) {
	if say.Text == "" && say.Wire == "" {
		return Result{}, &problem.Error{Kind: problem.Invalid, Thing: "the message", What: "is empty", Fate: "nothing was stored"}
	}
	if err := g.opts.Store.Writable(); err != nil {
		return Result{}, explained(err, "the store")
	}
	session, err := g.resolve(ctx, say)
	if err != nil {
		return Result{}, err
	}
	j := &job{say: say, session: session, ctx: ctx, sink: newSink(sink), done: make(chan struct{})}
	defer j.sink.close()
	if err := g.enqueue(j); err != nil {
		return Result{}, err
	}
	select {
	case <-j.done:
	case <-ctx.Done():
		g.withdraw(j)
		<-j.done
	}
	j.result.SinkDropped = j.sink.close()
	return j.result, j.err
}

// Interrupt ends the running turn of a session with one of the causes of this package, and reports whether there was one.
// Messages that wait in the conversation stay.
func (g *Gateway) Interrupt(session string, cause error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.conversations[session]
	return ok && c.interrupt(cause)
}

// Status gives a picture of the moment.
func (g *Gateway) Status() Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := Status{Draining: g.draining, Conversations: len(g.conversations), Running: []RunningTurn{}, Turns: g.turns, Failed: g.failed, Interrupted: g.interrupted}
	for _, c := range g.conversations {
		s.Queued += len(c.box)
		if c.turn != nil {
			s.Running = append(s.Running, c.turn.picture())
		}
	}
	slices.SortFunc(s.Running, func(a, b RunningTurn) int { return a.Since.Compare(b.Since) })
	return s
}

func errDraining() *problem.Error {
	return &problem.Error{
		Kind: problem.Unavailable, Thing: "gatewayd", What: "is stopping", Fate: "the message was not stored", Remedy: "send it again when it runs",
	}
}

func errMailboxFull(session string, n int) *problem.Error {
	return &problem.Error{
		Kind: problem.Busy, Thing: "session " + session, What: fmt.Sprintf("has %d messages waiting already", n),
		Fate: "the message was not stored", Remedy: "wait until some are answered",
	}
}

// holderLabel tells people, and Recover, what kind of process took a lease.
func holderLabel(sole bool, turn string) string {
	if sole {
		return daemonLabel + turn
	}
	return "worker turn " + turn
}

const daemonLabel = "daemon turn "
