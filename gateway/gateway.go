package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/internal/lastrun"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// Defaults of Options, each with its reason.
const (
	DefaultIterations = 90                // a long task's worth; a loop that needs more is lost
	DefaultStall      = 600 * time.Second // waits for a model have bounds of their own and give signs meanwhile
	DefaultGrace      = 20 * time.Second  // most turns end within it, and a supervisor's stop timeout is longer
	DefaultLeaseTTL   = 300 * time.Second // two renewals may fail before a turn is lost
	DefaultMailbox    = 32                // more messages than this waiting in one conversation is a loop between machines
	DefaultResume     = 2                 // a turn that ended two more processes would end a third
	DefaultFresh      = time.Hour         // later than this nobody waits for the answer any more
	DefaultBatch      = 420 * time.Second // of the calls of one answer together: above a command's own default, below the stall
	markTimeout       = 5 * time.Second   // of what a stop writes before it waits; a store that does not answer must not hold it
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
	ToolsAllow    []string      // tools.allow: what nobody is asked about
	Approvals     *Approvals    // asks people; nil: what would be asked is refused
	Self          *tool.Self    // this daemon, which no tool may end or change; nil: it is not protected
	Dir           string        // where tools work unless a message says otherwise
	SystemPrompt  string        // for sessions that bring none; empty means DefaultSystemPrompt
	MaxIterations int           // calls of the model in one turn; 0 means DefaultIterations
	StallTimeout  time.Duration // without any sign of life the turn is ended; 0 means DefaultStall, negative never
	Grace         time.Duration // what running turns get when Run's context ends; 0 means DefaultGrace, negative none
	LeaseTTL      time.Duration // 0 means DefaultLeaseTTL; renewed at a third of it
	Mailbox       int           // messages that may wait in one conversation; 0 means DefaultMailbox
	BatchTimeout  time.Duration // several calls of one answer end after it; 0 means DefaultBatch, negative never
	LoopHardStop  bool          // a turn that repeats a call without getting further is ended, and not only warned

	Aux        provider.Model // writes summaries; nil: the model of the conversation
	Compaction CompactionOptions

	// Models gives the model of a name, for sessions whose settings name one; nil: there is only Model.
	Models func(name string) (provider.Model, error)

	Resume      int           // how often a detached turn is resumed after its process died; 0 means DefaultResume, negative never
	ResumeFresh time.Duration // after this long it is closed instead; 0 means DefaultFresh
	LastRun     lastrun.Run   // how the daemon before this one ended, for the receipt

	// Sole says that the caller holds the home's lock: a turn lease that another daemon took is then known to be dead, also where
	// its process cannot be looked up (a container started anew).
	Sole bool
}

// Gateway holds the conversations. It is safe for concurrent use.
type Gateway struct {
	opts   Options
	began  time.Time
	log    *slog.Logger
	holder func(turn string) (sessiondb.Holder, error)

	tuning   atomic.Pointer[Tuning]
	feeds    feeds
	requests lastRequests
	windows  asker

	mu            sync.Mutex
	conversations map[string]*conversation
	running       bool // Run was called
	draining      bool
	blind         bool           // Recover found a store that takes no rows
	held          []*job         // turns to resume and accepted messages, until Run
	missed        map[string]int // sessions with accepted messages whose turn did not begin: tries
	idle          chan struct{}  // closed when draining and no conversation is left
	receipt       Receipt
	turns         int64
	failed        int64
	interrupted   int64
	resumed       int64
	breaks        int64 // of prefixes
}

// New makes a Gateway. It serves from now on, until Run's context ends.
func New(opts Options) *Gateway {
	opts = opts.withDefaults()
	g := &Gateway{
		opts: opts, began: time.Now(), log: opts.Log, holder: func(turn string) (sessiondb.Holder, error) { return sessiondb.SelfHolder(holderLabel(opts.Sole, turn)) },
		conversations: map[string]*conversation{}, missed: map[string]int{}, idle: make(chan struct{}),
		receipt: Receipt{Run: opts.LastRun},
	}
	g.tuning.Store(opts.Tuning().withDefaults())
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
	orDefault(&o.Grace, DefaultGrace)
	orDefault(&o.LeaseTTL, DefaultLeaseTTL)
	orDefault(&o.Mailbox, DefaultMailbox)
	orDefault(&o.Resume, DefaultResume)
	orDefault(&o.ResumeFresh, DefaultFresh)
	return o
}

func orDefault[T int | time.Duration](value *T, fallback T) {
	if *value == 0 {
		*value = fallback
	}
}

// Run serves until ctx ends: first it lets go what Recover has found, turns to resume before messages that wait. When ctx ends
// new messages are refused or, where they were accepted, held for the next start; running turns are marked, get the grace and are
// ended with cause Drain after it; and Run returns nil when every conversation has written its rows and ended.
func (g *Gateway) Run(ctx context.Context) error {
	g.release()
	rescued := make(chan struct{})
	go func() { defer close(rescued); g.rescue(ctx) }()
	<-ctx.Done()
	<-rescued
	running := g.drain()
	g.mark(running)
	if len(running) > 0 {
		g.log.Info("conversations draining", "running", len(running), "grace", g.opts.Grace.String())
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

// drain closes the door and gives the turns that still run. What was accepted stays in the inbox.
func (g *Gateway) drain() (running []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.draining {
		return nil
	}
	g.draining = true
	for _, c := range g.conversations {
		for _, j := range c.box {
			j.refuse(errDraining(j.say.waiting))
		}
		c.box = nil
		if c.turn != nil {
			running = append(running, c.turn.id)
		}
	}
	if len(g.conversations) == 0 {
		close(g.idle)
	}
	return running
}

// mark writes down that these turns were seen running by a daemon that stops, before anybody waits for them: a kill in the middle
// of the drain then finds the mark.
func (g *Gateway) mark(turns []string) {
	ctx, cancel := context.WithTimeout(context.Background(), markTimeout)
	defer cancel()
	if err := g.opts.Store.Mark(ctx, sessiondb.MarkDrain, turns...); err != nil {
		g.log.Warn("running turns not marked before the drain", "turns", len(turns), "error", err)
	}
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
// ends the turn is interrupted (ClientGone, unless ctx carries a cause of this package). A detached message is accepted like by Post,
// and ctx bounds only the waiting for its result. The sink gets the turn's events from one
// goroutine, in order, all of them before Say returns; it may be nil.
func (g *Gateway) Say(ctx context.Context, say Say, sink func(Event)) (Result, error) {
	say, err := say.illustrated()
	if err != nil {
		return Result{}, err
	}
	if err := say.usable(); err != nil {
		return Result{}, err
	}
	if err := g.opts.Store.Writable(); err != nil {
		return Result{}, explained(err, "the store")
	}
	session, err := g.sessionOf(ctx, say)
	if err != nil {
		return Result{}, err
	}
	if say.Detached || say.Mode == ModeSteer {
		return g.sayAccepted(ctx, session, say, sink)
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

// InterruptMessage is Interrupt for the turn that answers one message, and leaves any other alone.
func (g *Gateway) InterruptMessage(session, uid string, cause error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.conversations[session]
	return ok && c.turn != nil && c.turn.say.UID == uid && c.interrupt(cause)
}

// Status gives a picture of the moment.
func (g *Gateway) Status() Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := Status{
		Draining: g.draining, Conversations: len(g.conversations), Running: []RunningTurn{}, Turns: g.turns, Failed: g.failed, Interrupted: g.interrupted,
		Resumed: g.resumed, PrefixBreaks: g.breaks, Queued: len(g.held),
	}
	for _, c := range g.conversations {
		s.Queued += len(c.box) + len(c.steers)
		if c.turn != nil {
			s.Running = append(s.Running, c.turn.picture())
		}
	}
	slices.SortFunc(s.Running, func(a, b RunningTurn) int { return a.Since.Compare(b.Since) })
	return s
}

func errDraining(accepted bool) *problem.Error {
	if accepted {
		return &problem.Error{
			Kind: problem.Unavailable, Thing: "gatewayd", What: "is stopping", Fate: "the message is accepted and is answered after the next start",
			Remedy: "do not send it again", Err: isAccepted{},
		}
	}
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
