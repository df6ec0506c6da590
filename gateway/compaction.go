package gateway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"gatewayd/gateway/compact"
	"gatewayd/gateway/provider"
	"gatewayd/sessiondb"
)

// Defaults of CompactionOptions.
const (
	DefaultCompactions = 3                // compactions in one turn, after requests that did not fit
	DefaultHardRows    = 5000             // rows at which a conversation is compacted whatever they weigh
	DefaultFoldTime    = 15 * time.Minute // one compaction: a summary of a full window by a slow local model
)

// CompactionOptions say when a conversation is folded, and by whom. The zero value folds by the default rules.
type CompactionOptions struct {
	Off       bool           // nothing is folded; a request that does not fit ends the turn with an explanation
	Rules     *compact.Rules // nil: compact.Default
	Attempts  int            // in one turn; 0 means DefaultCompactions
	Strict    bool           // a summary that fails stops the conversation until it is tried again; else it goes on with a poorer one
	Timeout   time.Duration  // of one compaction as a whole; 0 means DefaultFoldTime
	IdleAfter time.Duration  // a conversation that nobody used for so long is folded when it comes back; 0: never
	HardRows  int            // 0 means DefaultHardRows
	Rolling   bool           // after each turn the oldest exchange is folded
	RollEvery int            // every so many turns; 0 means each
	RollModel provider.Model // writes the rolling summaries; nil: Options.Aux

	Secrets []string // never to stand in a summary, beside what looks like a secret
}

func (o CompactionOptions) withDefaults() CompactionOptions {
	if o.Rules == nil {
		rules := compact.Default()
		o.Rules = &rules
	}
	orDefault(&o.Attempts, DefaultCompactions)
	orDefault(&o.Timeout, DefaultFoldTime)
	orDefault(&o.HardRows, DefaultHardRows)
	orDefault(&o.RollEvery, 1)
	return o
}

// hygieneShare is how full an estimated window may be before a turn without anything measured is compacted all the same.
const hygieneShare = 0.85

// rowsLeast is the least conversation that anything is folded of.
const rowsLeast = 4

// makeRoom is asked before each request, never between a call and its last result. It may fold rows away and take the new
// transcript into the turn; an exit says that the conversation cannot go on.
func (t *turn) makeRoom() *exit {
	first := !t.folding.begun
	t.folding.begun = true
	if t.tuned.Compaction.Off || len(t.rows) < rowsLeast {
		return nil
	}
	p := t.pass("")
	if p.trigger = t.trigger(p, first); p.trigger == "" {
		t.pruned(p)
		return nil
	}
	if t.folding.passes >= t.tuned.Compaction.Attempts {
		return nil
	}
	done := t.fold(p, foldRule)
	if t.tuned.Compaction.Strict && (done.word == summarizeFailed || done.word == coolingDown && done.state.Failures > 0) {
		return frozenExit(done)
	}
	return nil
}

// trigger says why the conversation is to be compacted now, or "".
func (t *turn) trigger(p *pass, first bool) string {
	opts, used, b := t.tuned.Compaction, p.used, p.budget
	switch {
	case first && (len(t.rows) > opts.HardRows || used.tokens > int(hygieneShare*float64(b.Window))):
		return "hygiene"
	case first && t.idle() > opts.IdleAfter && opts.IdleAfter > 0:
		return "idle"
	case used.known && used.tokens >= b.Trigger:
		return "threshold"
	}
	if first && used.measured {
		t.relieved()
	}
	return ""
}

// idle is how long nobody had said anything before this turn.
func (t *turn) idle() time.Duration {
	for i := len(t.rows) - 1; i >= 0; i-- {
		if m := t.rows[i]; m.TurnID != t.id {
			return t.started.Sub(m.CreatedAt)
		}
	}
	return 0
}

// relieved forgets the strikes of a conversation that the server itself found smaller than the trigger.
func (t *turn) relieved() {
	st, err := t.g.opts.Store.CompactionState(t.ctx, t.session.ID)
	if err != nil || st.Strikes == 0 {
		return
	}
	t.g.keepState(t.ctx, t.session.ID, compact.Cleared(st), t.log)
}

// overflowed is asked when the model said that a request does not fit. It reports whether there is room now, so that the
// request is worth another try. Each time it goes one step further, until nothing is left to be let go of.
func (t *turn) overflowed(err error) bool {
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || e.Class != provider.ContextOverflow && e.Class != provider.PayloadTooLarge {
		return false
	}
	if t.tuned.Compaction.Off {
		e.Remedy = "start a new conversation with /new, or set compression.enabled to true"
		return false
	}
	var busy error
	for t.folding.passes < t.tuned.Compaction.Attempts && t.folding.step <= foldLast {
		step := t.folding.step
		t.folding.step++
		p := t.pass("overflow")
		p.proven = true
		done := t.fold(p, step)
		switch {
		case done.changed:
			return true
		case done.word == interrupted:
			return false
		case done.word == aborted: // it has no room for the next step either
			busy, t.folding.step = done.err, foldResult
		case t.tuned.Compaction.Strict && done.word == summarizeFailed:
			e.Remedy = "its summary failed (" + done.state.LastError + "); try again with /compress, or start a new conversation with /new"
			return false
		}
	}
	e.Remedy = t.endless(e.Class, busy)
	return false
}

// rolled is called when an answer's row is stored and before the answer is handed out. It never fails the turn.
func (t *turn) rolled() {
	opts := t.tuned.Compaction
	if opts.Off || !opts.Rolling || t.ctx.Err() != nil || len(t.rows) < rowsLeast || compact.Turns(t.rows)%opts.RollEvery != 0 {
		return
	}
	t.enter(PhaseCompact)
	p := t.pass("rolling")
	defer p.begin()()
	p.roll()
}

// folding is what a turn knows of its own compactions.
type folding struct {
	begun  bool     // room was made once
	passes int      // compactions that asked for a summary or changed rows
	step   foldStep // of the next one after an overflow

	last     sessiondb.Asked // the session's last answered request, before this turn's first
	answered bool            // there was one
	read     bool            // it was looked for
}

// pass prepares one compaction of the turn's conversation.
func (t *turn) pass(trigger string) *pass {
	return &pass{
		g: t.g, tuned: t.tuned, session: t.session.ID, turn: t.id, trigger: trigger, parent: t.ctx, rows: t.rows, budget: t.budget(), used: t.weighed(), model: t.model,
		fixed: t.fixed(), touch: t.progress.touch, log: t.log,
	}
}

// fold runs one compaction inside the turn and takes the new rows.
func (t *turn) fold(p *pass, step foldStep) folded {
	t.enter(PhaseCompact)
	p.tell = func(text string) { t.sink.put(Event{Kind: EventNotice, Text: text}) }
	defer p.begin()()
	done := p.run(step)
	if done.counts() {
		t.folding.passes++
	}
	t.takeFolded(done)
	return done
}

// pruned makes stubs of big old results where the settings ask for it; no model is asked.
func (t *turn) pruned(p *pass) {
	rules := t.tuned.Compaction.Rules
	if rules.PruneTokens == 0 || p.used.tokens < rules.PruneTokens || t.folding.passes > 0 {
		return
	}
	p.trigger = "prune"
	defer p.begin()()
	t.takeFolded(p.run(foldStubs))
}

// takeFolded puts the transcript as it is now into the turn.
func (t *turn) takeFolded(done folded) {
	if done.rows == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = done.rows
}

// keepState writes what is known of a session's compactions; it is tried once, and a failure costs nothing but a later try.
func (g *Gateway) keepState(ctx context.Context, session string, st sessiondb.CompactionState, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	l, err := g.compactionLease(ctx, session, "state")
	if err == nil {
		err = g.opts.Store.SetCompactionState(ctx, l, st)
		err = errors.Join(err, g.opts.Store.Release(ctx, l))
	}
	if err != nil {
		log.Warn("compaction state not stored", "error", err)
	}
}
