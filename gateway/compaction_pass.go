package gateway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"gatewayd/gateway/compact"
	"gatewayd/gateway/provider"
	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// What became of a compaction, in one word. It is in the log line of each.
const (
	compacted       = "compacted"
	pruned          = "pruned"
	nothingToDo     = "nothing_to_do"
	wouldGrow       = "refused_would_grow"
	lockSkipped     = "lock_skipped"
	coolingDown     = "cooling_down"
	summarizeFailed = "summarize_failed"
	aborted         = "aborted" // the summariser had no room for us; nothing is held against the conversation
	stale           = "stale_history"
	persistFailed   = "persist_failed"
	interrupted     = "interrupted"

	absorbed        = "absorbed" // of rolling compaction, from here on
	defragged       = "defrag"
	defragFailed    = "defrag_failed"
	exchangeSkipped = "exchange_skipped"
	staleGeneration = "stale_generation"
	noWatermark     = "watermark_unavailable"
)

// foldStep is how far a compaction goes.
type foldStep int

const (
	foldRule   foldStep = iota // as the rules say
	foldMore                   // all but the last round
	foldResult                 // every result but the last round's becomes a stub; no model is asked
	foldStubs                  // big old results become stubs; no model is asked
	foldHere                   // all but the last exchanges, by hand
	foldLast   = foldResult
)

// pass is one compaction on its way: lease, rows, choice, summary, commit, and what is remembered of it. The caller holds the
// session's turn lease.
type pass struct {
	g       *Gateway
	tuned   *Tuning
	session string
	turn    string
	trigger string
	topic   string
	here    int
	proven  bool                // the server said that it does not fit
	manual  bool                // a person asked
	parent  context.Context     // of the turn
	rows    []sessiondb.Message // as the caller knows them
	budget  compact.Budget
	used    used
	fixed   int            // tokens of a request beside the rows
	model   provider.Model // of the conversation
	touch   func()
	tell    func(string) // what a person who waits should know; may be nil
	log     *slog.Logger

	ctx     context.Context
	lease   sessiondb.Lease
	state   sessiondb.CompactionState
	started time.Time
}

// folded is what became of a pass.
type folded struct {
	word          string
	changed       bool                // the conversation is another one now
	rows          []sessiondb.Message // the transcript as it is now; nil: as the caller knows it
	before, after int                 // tokens: measured before where the server counted, estimated after
	rowsBefore    int
	rowsAfter     int
	folded, kept  int  // rows
	fallback      bool // the summary is the one without a model
	asked         bool // a model was asked
	state         sessiondb.CompactionState
	err           error
}

// counts reports a pass that is one of a turn's attempts. Waiting for somebody else's is none.
func (f folded) counts() bool { return f.asked || f.changed }

// begin gives the pass its own context. What a person writes or whether a client waits does not end a compaction, or a
// conversation whose summary takes longer than the next message would never get one; stop, drain, a lost lease and the stall
// watchdog do.
func (p *pass) begin() (end func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(p.parent))
	ctx, stop := context.WithTimeoutCause(ctx, p.tuned.Compaction.Timeout, errFoldTime)
	leave := context.AfterFunc(p.parent, func() {
		if cause := causeOf(p.parent); cause != Redirect && cause != ClientGone || mutation.On("compaction-ends-with-its-client") {
			cancel(cause)
		}
	})
	p.ctx, p.started = ctx, time.Now()
	return func() { leave(); stop(); cancel(nil) }
}

var errFoldTime = errors.New("the compaction took longer than compression.context_timeout")

// run does it and says in one line what became of it.
func (p *pass) run(step foldStep) (done folded) {
	defer func() { p.report(done) }()
	release, done, ok := p.take()
	if !ok {
		return done
	}
	defer release()
	if !p.manual && !p.proven && !compact.May(p.state, time.Now()) {
		return p.ended(folded{word: coolingDown})
	}
	if p.manual {
		p.remember(compact.Cleared(p.state))
	}
	if step == foldResult || step == foldStubs {
		return p.stubs(step)
	}
	return p.summed(step)
}

// take gets the lease, the rows and the state. Without them there is no compaction, and why is in the result.
func (p *pass) take() (release func(), done folded, ok bool) {
	l, err := p.g.compactionLease(p.ctx, p.session, p.turn)
	if err != nil {
		return nil, p.ended(p.leaseFailed(err)), false
	}
	p.lease = l
	release = p.keepLease()
	rows, err := p.g.opts.Store.Transcript(p.ctx, p.session)
	if err == nil {
		p.state, err = p.g.opts.Store.CompactionState(p.ctx, p.session)
	}
	if err != nil {
		release()
		return nil, p.ended(folded{word: p.orInterrupted(persistFailed), err: err}), false
	}
	if !p.manual && sessiondb.See(rows) != sessiondb.See(p.rows) { // another compaction was quicker
		release()
		p.rows = rows
		return nil, p.ended(folded{word: stale, rows: rows, changed: true}), false
	}
	p.rows = rows
	return release, folded{}, true
}

// leaseFailed is another compaction under way, or a store that takes nothing. What the other one did is read by whoever goes on.
func (p *pass) leaseFailed(err error) folded {
	if !errors.Is(err, sessiondb.ErrLeaseHeld) {
		return folded{word: p.orInterrupted(persistFailed), err: err}
	}
	done := folded{word: p.orInterrupted(lockSkipped), err: err}
	if rows, err := p.g.opts.Store.Transcript(p.ctx, p.session); err == nil && sessiondb.See(rows) != sessiondb.See(p.rows) {
		done.rows, done.changed = rows, true
	}
	return done
}

// summed folds what the rules choose into a summary.
func (p *pass) summed(step foldStep) folded {
	f, some := p.choose(step)
	if !some {
		if !p.proven && !p.manual {
			p.remember(compact.Nothing(p.state, time.Now()))
		}
		return p.ended(folded{word: nothingToDo})
	}
	p.say("This conversation fills the model's window; its earlier part is being summarised.")
	summary, done := p.summary(f)
	if done.word != "" {
		return p.ended(done)
	}
	plan := f.Plan(summary)
	if plan.Grows() {
		p.remember(compact.Gained(p.state, time.Now(), p.used.tokens, p.used.tokens, p.budget.Trigger))
		done.word = wouldGrow
		return p.ended(done)
	}
	done.word = compacted
	return p.ended(p.commit(plan, done))
}

func (p *pass) choose(step foldStep) (compact.Fold, bool) {
	rules := p.tuned.Compaction.Rules
	if step == foldHere { // never more than was asked for
		return rules.Choose(p.rows, p.budget, compact.Choice{Here: p.here})
	}
	f, some := rules.Choose(p.rows, p.budget, compact.Choice{Squeeze: step == foldMore})
	if !some && p.manual {
		f, some = rules.Choose(p.rows, p.budget, compact.Choice{Squeeze: true})
	}
	return f, some
}

// stubs makes big results small without asking a model.
func (p *pass) stubs(step foldStep) folded {
	rules := p.tuned.Compaction.Rules
	plan, some := compact.LastResort(p.rows)
	if step == foldStubs {
		plan, some = rules.Stubs(p.rows, rules.Tail(p.rows, p.budget))
	}
	if !some {
		return p.ended(folded{word: nothingToDo})
	}
	return p.ended(p.commit(plan, folded{word: pruned}))
}

// commit writes the plan, whole or not at all, and remembers what it gained.
func (p *pass) commit(plan compact.Plan, done folded) folded {
	ctx := p.ctx
	if p.outOfTime() { // the summary was late; what stands in its place is not
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err := p.g.opts.Store.ArchiveAndCompact(ctx, plan.Compaction(p.lease, p.rows))
	switch {
	case errors.Is(err, sessiondb.ErrStalePlan):
		done.word, done.err = stale, err
		done.rows, _ = p.g.opts.Store.Transcript(ctx, p.session)
		done.changed = done.rows != nil
		return done
	case err != nil:
		done.word, done.err = p.orInterrupted(persistFailed), err
		return done
	}
	done.changed = true
	done.folded, done.kept = len(plan.Covered), len(p.rows)-len(plan.Covered)
	done.before, done.rowsBefore = p.used.tokens, len(p.rows)
	done.after = max(p.used.tokens-plan.Saved(), 0)
	if done.rows, err = p.g.opts.Store.Transcript(ctx, p.session); err != nil {
		done.err = err
	}
	done.rowsAfter = len(done.rows)
	if done.word == compacted {
		if p.remember(compact.Gained(p.state, time.Now(), done.before, done.after, p.budget.Trigger)); compact.Stuck(p.state) {
			p.noGain(done.rows)
		}
	}
	return done
}

// remember keeps the state, also when the pass was ended meanwhile.
func (p *pass) remember(st sessiondb.CompactionState) {
	p.state = st
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), writeTimeout)
	defer cancel()
	if err := p.g.opts.Store.SetCompactionState(ctx, p.lease, st); err != nil {
		p.log.Warn("compaction state not stored", "error", err)
	}
}

func (p *pass) ended(done folded) folded {
	done.state = p.state
	if done.rowsBefore == 0 { // nothing was written
		done.before, done.after = p.used.tokens, p.used.tokens
		done.rowsBefore, done.rowsAfter = len(p.rows), len(p.rows)
	}
	return done
}

// say tells whoever waits.
func (p *pass) say(text string) {
	if p.tell != nil {
		p.tell(text)
	}
}

// orInterrupted tells a failure from the end of the pass.
func (p *pass) orInterrupted(word string) string {
	if p.ctx.Err() != nil && !p.outOfTime() {
		return interrupted
	}
	return word
}

// outOfTime reports that the pass took longer than it may.
func (p *pass) outOfTime() bool { return errors.Is(context.Cause(p.ctx), errFoldTime) }

// compactionLease takes the right to compact a session.
func (g *Gateway) compactionLease(ctx context.Context, session, why string) (sessiondb.Lease, error) {
	holder, err := g.holder(why)
	if err != nil {
		return sessiondb.Lease{}, err
	}
	return g.opts.Store.AcquireCompaction(ctx, session, holder, g.opts.LeaseTTL)
}

// keepLease renews it until it is released. A summary may take longer than the lease lives.
func (p *pass) keepLease() (release func()) {
	ctx, cancel := context.WithCancelCause(p.ctx)
	p.ctx = ctx
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.renew(ctx, cancel)
	}()
	return func() {
		cancel(nil)
		<-done
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		defer stop()
		if err := p.g.opts.Store.Release(ctx, p.lease); err != nil {
			p.log.Warn("compaction lease not released, it runs out by itself", "error", err)
		}
	}
}

func (p *pass) renew(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(max(p.g.opts.LeaseTTL/3, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := p.g.opts.Store.Renew(ctx, p.lease); errors.Is(err, sessiondb.ErrLeaseLost) {
			cancel(LeaseLost)
			return
		}
	}
}

// report is the one line that each pass leaves in the log.
func (p *pass) report(done folded) {
	level := slog.LevelInfo
	if done.err != nil {
		level = slog.LevelWarn
	}
	if done.word == coolingDown || done.word == nothingToDo {
		level = slog.LevelDebug
	}
	log := p.log
	if at := done.state.RetryAt; !at.IsZero() {
		log = log.With("retry_at", at)
	}
	if done.err != nil {
		log = log.With("error", done.err)
	}
	log.Log(context.WithoutCancel(p.parent), level, "compaction", "outcome", done.word, "trigger", p.trigger, "changed", done.changed, "fallback_used", done.fallback,
		"tokens_before", done.before, "tokens_after", done.after, "measured", p.used.measured, "rows_before", done.rowsBefore, "rows_after", done.rowsAfter,
		"window", p.budget.Window, "trigger_tokens", p.budget.Trigger, "failures", done.state.Failures, "strikes", done.state.Strikes,
		"took", time.Since(p.started).Round(time.Millisecond).String())
}

// frozenExit ends a turn whose conversation may not go on without a summary.
func frozenExit(done folded) *exit {
	why := done.state.LastError
	return &exit{
		reason: "compaction_failed", finish: finishError, retryable: true,
		note: "[Not answered: this conversation has to be summarised first, and that failed (" + why + "). Send a message later, or /compress, to try again; /new starts a new conversation.]",
		problem: &problem.Error{
			Kind: problem.Unavailable, Thing: "the summary of the earlier conversation", What: "failed: " + why, Fate: "nothing was changed; the message is stored",
			Remedy: "try again with /compress, or start a new conversation with /new", Err: done.err,
		},
	}
}
