package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/sessiondb"
)

// turn is one message on its way to an answer. Its phases, in order:
//
//	lease   the cross-process right to write this transcript
//	open    repair what an earlier process left, store the user row (P1) and that the turn has begun
//	model   one request computed from the rows, one answer            ┐ until the answer
//	tools   store the calls (P2), run them, store each result (P3)    │ has no calls
//	        store what was said into the turn meanwhile (P4)          ┘
//	close   store the answer (P5), or the rows that explain why there is none (P6), and that the turn has ended
//
// A turn that goes on from its rows after the end of its process begins at open without a user row.
type turn struct {
	g         *Gateway
	tuned     *Tuning // as it was when the turn began
	say       Say
	session   sessiondb.Session
	id        string
	started   time.Time
	log       *slog.Logger
	sink      *sink
	feed      *feed
	model     provider.Model // of this turn; it is chosen once the lease is held
	begun     bool           // the turn is pending in the store
	displaced bool           // another message ended it; guarded by Gateway.mu
	first     int64          // its first row that this process stored
	sealed    bool           // its last row is stored

	ctx      context.Context // ends with the cause that interrupts the turn
	cancel   context.CancelCauseFunc
	leave    func() bool
	phase    atomic.Value // string
	answers  atomic.Value // string: the label of the model, for those who look from outside
	progress *progress
	detach   chan struct{} // closed when a redirect asks tools to leave what they started running
	letGo    sync.Once
	serial   sync.Mutex // held by a destructive command: one at a time

	lease  sessiondb.Lease
	system string
	spoke  bool                  // text was shown in this turn
	tools  *tool.Set             // what the model was told of; see toolset
	bare   bool                  // requests carry no tools: the steps are used up, or the message asked for that
	unpaid *sessiondb.UsageDelta // of the last answer, until its row is stored; only the turn's own goroutine touches it

	room    *tool.Room // what results may still take in this turn
	mu      sync.Mutex // guards rows and spooled: results are stored by the goroutines of their calls
	rows    []sessiondb.Message
	spooled []sessiondb.NewMessage // what the store did not take and the spool did; it comes after rows when the store is back
	guard   guard
	asked   *asked // the last request of this turn that was answered
	folding folding

	result Result
}

const invalidMax = 3 // rounds in a row whose every call was unusable

func (g *Gateway) newTurn(j *job) *turn {
	tuned := g.tuned()
	t := &turn{
		g: g, tuned: tuned, say: j.say, session: j.session, id: "turn_" + rand.Text()[:16], started: time.Now(), sink: j.sink,
		progress: newProgress(), model: tuned.Model, bare: j.say.Bare, detach: make(chan struct{}), feed: g.feeds.open(j.session.ID),
	}
	if j.say.pending != nil {
		t.id = j.say.pending.Turn
	}
	t.sink.also(t.feed)
	t.log = g.log.With("session", t.session.ID, "turn", t.id)
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(j.ctx))
	t.leave = context.AfterFunc(j.ctx, func() { t.cancel(causeOf(j.ctx)) })
	t.phase.Store("lease")
	t.answers.Store(modelLabel(t.model))
	t.result = Result{Session: t.session.ID, TurnID: t.id}
	return t
}

func (t *turn) picture() RunningTurn {
	phase, _ := t.phase.Load().(string)
	model, _ := t.answers.Load().(string)
	return RunningTurn{Session: t.session.ID, Turn: t.id, Model: model, Phase: phase, Since: t.started, Progress: t.progress.at()}
}

// run takes the turn from the lease to its last row. An error means that the user row is not stored.
func (t *turn) run() (Result, error) {
	defer t.cancel(nil)
	defer t.leave()
	if err := t.acquire(); err != nil {
		return t.result, err
	}
	keeping := t.keep()
	defer t.release(keeping)
	if err := t.open(); err != nil {
		return t.result, err
	}
	t.feed.begin(t.id, t.say.UID, t.say.Text)
	if t.say.told != nil {
		close(t.say.told.stored)
		if !t.say.told.Wake {
			t.result.Completed, t.result.ExitReason = true, "told"
			return t.result, nil
		}
	}
	t.sink.put(Event{Kind: EventModel, Text: modelLabel(t.model)})
	t.close(t.steps())
	t.acknowledge()
	t.log.Info("turn ended", "exit", t.result.ExitReason, "calls", t.result.Calls, "took", time.Since(t.started).Round(time.Millisecond).String())
	return t.result, nil
}

// compacting reports that the turn is folding its conversation, which plain text does not interrupt.
func (t *turn) compacting() bool {
	phase, _ := t.phase.Load().(string)
	return phase == PhaseCompact
}

// PhaseCompact is the phase of a compaction inside a turn.
const PhaseCompact = "compact"

// detachGrace is what tools get to leave a running command in the background before they are stopped.
const detachGrace = 2 * time.Second

// end ends the turn with a cause. A redirect first asks tools to go on without the turn; whatever does not is stopped.
func (t *turn) end(cause error) {
	if phase, _ := t.phase.Load().(string); cause != Redirect || phase != "tools" {
		t.cancel(cause)
		return
	}
	t.letGo.Do(func() {
		close(t.detach)
		stop := time.AfterFunc(detachGrace, func() { t.cancel(cause) })
		context.AfterFunc(t.ctx, func() { stop.Stop() })
	})
}

// redirected reports that a redirect waits for the tools to let go.
func (t *turn) redirected() bool {
	select {
	case <-t.detach:
		return true
	default:
		return false
	}
}

// enter moves the turn to its next phase, which is a sign of life.
func (t *turn) enter(phase string) {
	t.phase.Store(phase)
	t.progress.touch()
}

// acquire waits for the turn lease of the session. Another process may hold it.
func (t *turn) acquire() error {
	if err := t.g.opts.Store.Writable(); err != nil { // the store may have gone while this message waited
		return explained(err, "session "+t.session.ID)
	}
	holder, err := t.g.holder(t.id)
	if err != nil {
		return explained(err, "session "+t.session.ID)
	}
	t.lease, err = t.g.opts.Store.AcquireTurn(t.ctx, t.session.ID, holder, t.g.opts.LeaseTTL)
	if err == nil {
		return nil
	}
	if t.ctx.Err() != nil {
		return errLeftEarly(context.Cause(t.ctx))
	}
	return t.g.refused(err, "session "+t.session.ID)
}

// keep renews the lease and watches for signs of life until the turn is over.
func (t *turn) keep() (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.ctx))
	var wg sync.WaitGroup
	wg.Go(func() { t.renew(ctx) })
	if limit := t.tuned.StallTimeout; limit > 0 {
		wg.Go(func() { t.progress.watch(ctx, limit, t.stalled) })
	}
	return func() { cancel(); wg.Wait() }
}

// renew keeps the lease. A lease that is somebody else's ends the turn at once; one that cannot be renewed, when it has run out.
func (t *turn) renew(ctx context.Context) {
	ttl := t.g.opts.LeaseTTL
	tick := time.NewTicker(max(ttl/3, time.Millisecond))
	defer tick.Stop()
	renewed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_, err := t.g.opts.Store.Renew(ctx, t.lease)
		switch {
		case err == nil:
			renewed = time.Now()
		case ctx.Err() != nil:
			return
		case errors.Is(err, sessiondb.ErrLeaseLost) || time.Since(renewed) > ttl:
			t.log.Warn("turn lease lost", "error", err)
			t.cancel(LeaseLost)
			return
		}
	}
}

func (t *turn) stalled() {
	t.log.Warn("turn stalled", "phase", t.picture().Phase, "limit", t.tuned.StallTimeout.String(), "stacks", stacks())
	t.cancel(Stall)
}

// release gives the lease back, always; it is tried even when it was lost, because that is no error.
func (t *turn) release(stopKeeping func()) {
	stopKeeping()
	ctx, cancel := t.writing()
	defer cancel()
	if err := t.g.opts.Store.Release(ctx, t.lease); err != nil {
		t.log.Warn("turn lease not released, it runs out by itself", "error", err)
	}
}

// writing gives a context for a write that an interrupt must not tear: what happened is stored also when the turn is ended.
func (t *turn) writing() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.ctx), writeTimeout)
}

// append stores rows and takes them into the transcript that requests are made of. Rows come back also when the store says that
// they are in a file it no longer trusts; the error then ends the turn as any other. So does sessiondb.ErrSpooled: what is in the
// spool is safe and not stored.
func (t *turn) append(rows ...sessiondb.NewMessage) error {
	return t.store(rows, t.g.opts.Store.Append)
}

// begin is append of the turn's first rows: it is pending from now on, until finish.
func (t *turn) begin(user string, rows ...sessiondb.NewMessage) error {
	p := sessiondb.Pending{Turn: t.id, UserUID: user, Source: t.say.Source, Dir: t.say.Dir, Detached: t.say.Detached}
	err := t.store(rows, func(ctx context.Context, l sessiondb.Lease, rows []sessiondb.NewMessage) ([]sessiondb.Message, error) {
		return t.g.opts.Store.Begin(ctx, l, p, rows)
	})
	t.begun = err == nil
	return err
}

// finish is append of the turn's last rows: it is no longer pending.
func (t *turn) finish(rows ...sessiondb.NewMessage) error {
	write := t.g.opts.Store.Append
	if t.begun {
		write = func(ctx context.Context, l sessiondb.Lease, rows []sessiondb.NewMessage) ([]sessiondb.Message, error) {
			return t.g.opts.Store.End(ctx, l, t.id, rows)
		}
	}
	err := t.store(rows, write)
	t.sealed = err == nil
	return err
}

// acknowledge puts the digest of the turn's stored rows into its result. A turn whose last row is not stored has none: it may yet go on.
func (t *turn) acknowledge() {
	if !t.sealed {
		return
	}
	ctx, cancel := t.writing()
	defer cancel()
	first := t.first
	if t.say.pending != nil {
		first = 0 // an earlier process stored the beginning
	}
	r, err := t.g.opts.Store.Receipt(ctx, t.session.ID, t.id, first, t.result.LastRow)
	if err != nil {
		t.log.Warn("turn ended without a receipt", "error", err)
		return
	}
	t.result.Digest = r.Digest
}

type writer func(context.Context, sessiondb.Lease, []sessiondb.NewMessage) ([]sessiondb.Message, error)

func (t *turn) store(rows []sessiondb.NewMessage, write writer) error {
	for i := range rows {
		rows[i].TurnID = t.id
	}
	billed := t.bill(rows)
	ctx, cancel := t.writing()
	defer cancel()
	stored, err := write(ctx, t.lease, rows)
	if billed && len(stored) > 0 {
		t.unpaid = nil
	}
	if errors.Is(err, sessiondb.ErrLeaseLost) {
		t.cancel(LeaseLost)
	}
	t.take(stored)
	if errors.Is(err, sessiondb.ErrSpooled) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.spooled = append(t.spooled, rows...)
	}
	return err
}

// take puts stored rows where their ids belong. Results of one round are stored at the same time, so that they share a commit, and
// may come back in another order.
func (t *turn) take(stored []sessiondb.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first == 0 && len(stored) > 0 {
		t.first = stored[0].ID
	}
	for _, row := range stored {
		at := len(t.rows)
		for at > 0 && t.rows[at-1].ID > row.ID {
			at--
		}
		t.rows = slices.Insert(t.rows, at, row)
	}
	if n := len(t.rows); n > 0 {
		t.result.LastRow = t.rows[n-1].ID
	}
}

// policy is what the tools of this turn may do. It is made here, from the message's source, and travels with each call.
func (t *turn) policy() tool.Policy {
	p := tool.Policy{Context: t.say.Source, Terminal: t.tuned.Terminal, Files: t.tuned.Files, Allow: t.tuned.ToolsAllow, Self: t.g.opts.Self}
	if t.say.Source == SourceNotify {
		p.Terminal, p.Files, p.Allow = tool.Deny, tool.Deny, nil
	}
	if t.g.opts.Approvals != nil {
		p.Approver = turnApprover{t}
	}
	return p
}

// caller says on whose behalf the turn asks the model: workers and chats take turns at the provider's gate.
func (t *turn) caller() provider.Caller {
	class := provider.CallerChat
	if t.session.Source == SourceWorker {
		class = provider.CallerWorker
	}
	return provider.Caller{Class: class, Session: t.session.ID}
}

func (t *turn) request() provider.Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := provider.Request{System: t.system, Messages: Replay(t.rows), Tools: t.toolset().Specs(), Caller: t.caller()}
	if t.bare {
		r.Tools = nil
	}
	return r.With(t.say.Wishes)
}
