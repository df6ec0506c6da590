package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// Compress asks for a compaction by hand.
type Compress struct {
	Here    int    // keep the last so many exchanges as they are and fold what is before them; 0: the configured tail
	Topic   string // what the summary should dwell on
	Preview bool   // say what would be done, and do nothing
}

// CompressStatus is what became of a compaction by hand.
type CompressStatus string

// The statuses.
const (
	CompressPreview     CompressStatus = "preview"
	CompressDone        CompressStatus = "compressed"
	CompressNothing     CompressStatus = "nothing_to_do"
	CompressLockSkipped CompressStatus = "lock_skipped"   // another process works on the conversation
	CompressFailed      CompressStatus = "failed"         // there was no summary; nothing was changed
	CompressNotStored   CompressStatus = "persist_failed" // nothing was changed, and it may be repeated
)

// Compressed says what became of it. Tokens are estimates unless Measured says that the server counted those before.
type Compressed struct {
	Status           CompressStatus `json:"status"`
	Noop             bool           `json:"noop,omitempty"`               // nothing was changed, and nothing failed
	Aborted          bool           `json:"aborted,omitempty"`            // it was stopped, or the summariser had no room
	FallbackUsed     bool           `json:"fallback_used,omitempty"`      // the summary was made without a model
	RefusedWouldGrow bool           `json:"refused_would_grow,omitempty"` // the summary was no smaller than what it stands for
	DeadEnd          bool           `json:"dead_end,omitempty"`           // compactions do not make this conversation smaller any more
	RowsBefore       int            `json:"rows_before"`
	RowsAfter        int            `json:"rows_after"`
	TokensBefore     int            `json:"tokens_before"`
	TokensAfter      int            `json:"tokens_after"`
	Measured         bool           `json:"measured,omitempty"`
	Folded           int            `json:"folded"` // rows that are, or would be, folded
	Kept             int            `json:"kept"`   // rows that go on as they are
	Window           Window         `json:"window"`
	Reason           string         `json:"reason,omitempty"`
}

// hereMost is the most exchanges that a person can ask to keep.
const hereMost = 100

// Compress folds the older part of a conversation into a summary, in its turn behind those that run: what a person says meanwhile
// waits. It blocks until that is done; Interrupt with Stop, or the end of ctx before it began, ends it and leaves the conversation as
// it was. Cool-downs and strikes do not hold it back. Every outcome is in the Compressed; an error (*problem.Error) means that the
// session cannot be worked on at all.
func (g *Gateway) Compress(ctx context.Context, session string, c Compress) (Compressed, error) {
	if c.Here < 0 || c.Here > hereMost {
		return Compressed{}, &problem.Error{
			Kind: problem.Invalid, Thing: "compress here", What: fmt.Sprintf("keeps 1 to %d exchanges, not %d", hereMost, c.Here), Fate: "nothing was changed",
		}
	}
	if c.Preview {
		return g.previewCompress(ctx, session, c)
	}
	s, err := g.opts.Store.Session(ctx, session)
	if err != nil {
		return Compressed{}, explained(err, "session "+session)
	}
	if s.EndedAt != nil {
		return Compressed{}, &problem.Error{
			Kind: problem.Conflict, Thing: "session " + session, What: "has ended", Fate: "nothing was changed", Remedy: "send it a message to go on with it, then compress it",
		}
	}
	var out Compressed
	j := &job{session: s, ctx: ctx, sink: newSink(nil), done: make(chan struct{}), work: func(t *turn) (err error) {
		out, err = t.compress(c)
		return err
	}}
	defer j.sink.close()
	if err := g.enqueue(j); err != nil {
		return Compressed{}, err
	}
	select {
	case <-j.done:
	case <-ctx.Done():
		g.withdraw(j)
		<-j.done
	}
	return out, j.err
}

// compress is a turn that folds instead of answering.
func (t *turn) compress(c Compress) (Compressed, error) {
	store, thing := t.g.opts.Store, "session "+t.session.ID
	holder, err := t.g.holder(t.id)
	if err != nil {
		return Compressed{}, explained(err, thing)
	}
	if t.lease, err = store.TryTurn(t.ctx, t.session.ID, holder, t.g.opts.LeaseTTL); errors.Is(err, sessiondb.ErrLeaseHeld) {
		return Compressed{Status: CompressLockSkipped, Noop: true, Reason: "a turn of this conversation runs in another process"}, nil
	}
	if err != nil {
		return Compressed{}, explained(err, thing)
	}
	keeping := t.keep()
	defer t.release(keeping)
	t.enter(PhaseCompact)
	t.model = t.g.modelOf(t.ctx, t.session.ID) // a model that was chosen for one message stays chosen for it
	if t.rows, _, err = t.g.mend(t.ctx, t.lease); err != nil {
		return Compressed{}, explained(err, thing)
	}
	if t.system, err = t.prompt(); err != nil {
		return Compressed{}, explained(err, thing)
	}
	return t.compressed(c), nil
}

func (t *turn) compressed(c Compress) Compressed {
	p := t.pass("manual")
	out := Compressed{Status: CompressNothing, Noop: true, RowsBefore: len(t.rows), RowsAfter: len(t.rows), TokensBefore: p.used.tokens, TokensAfter: p.used.tokens, Measured: p.used.measured}
	out.Window = t.g.windowOf(t.ctx, t.model, p.used)
	if len(t.rows) < rowsLeast {
		out.Reason = fmt.Sprintf("there are %d messages, and less than %d are not folded", len(t.rows), rowsLeast)
		return out
	}
	p.manual, p.topic, p.here = true, c.Topic, c.Here
	step := foldRule
	if c.Here > 0 {
		step = foldHere
	}
	defer p.begin()()
	done := p.run(step)
	return out.with(done)
}

// with puts what became of a pass into it.
func (out Compressed) with(done folded) Compressed {
	out.FallbackUsed = done.fallback
	out.DeadEnd = done.state.Strikes > 0 && done.after >= out.Window.Trigger && out.Window.Trigger > 0 // a person begins without strikes
	if done.err != nil {
		out.Reason = reason(done.err)
	}
	switch done.word {
	case compacted:
		out.Status, out.Noop = CompressDone, false
		out.RowsAfter, out.TokensAfter, out.Folded, out.Kept = done.rowsAfter, done.after, done.folded, done.kept
	case nothingToDo:
		out.Reason = "all of it belongs to the part that stays word for word"
	case wouldGrow:
		out.RefusedWouldGrow, out.Reason = true, "the summary would be no smaller than what it stands for"
	case lockSkipped:
		out.Status, out.Reason = CompressLockSkipped, "another process compacts this conversation"
	case aborted, interrupted:
		out.Status, out.Noop, out.Aborted = CompressFailed, false, true
	case summarizeFailed:
		out.Status, out.Noop = CompressFailed, false
	default:
		out.Status, out.Noop = CompressNotStored, false
	}
	return out
}

// previewCompress says what would be done. It reads only.
func (g *Gateway) previewCompress(ctx context.Context, session string, c Compress) (Compressed, error) {
	m, rows, used, err := g.weigh(ctx, session)
	if err != nil {
		return Compressed{}, explained(err, "session "+session)
	}
	out := Compressed{
		Status: CompressPreview, Noop: true, RowsBefore: len(rows), RowsAfter: len(rows), TokensBefore: used.tokens, TokensAfter: used.tokens, Measured: used.measured,
		Window: g.windowOf(ctx, m, used),
	}
	tuned := g.tuned()
	p := &pass{g: g, tuned: tuned, rows: rows, budget: g.budgetOf(ctx, tuned, m, used.tokens), manual: true, here: c.Here}
	step := foldRule
	if c.Here > 0 {
		step = foldHere
	}
	if f, some := p.choose(step); some && len(rows) >= rowsLeast {
		plan := f.Plan(strings.Repeat("word ", f.Prompt(c.Topic).Want*4/5))
		out.Folded, out.Kept = len(plan.Covered), len(rows)-len(plan.Covered)
		out.RowsAfter, out.TokensAfter = len(rows)-len(plan.Covered)+plan.News(), max(used.tokens-plan.Saved(), 0)
		out.RefusedWouldGrow = plan.Grows()
	}
	return out, nil
}

// String is what a person reads.
func (out Compressed) String() string {
	tokens := fmt.Sprintf("about %d tokens", out.TokensBefore)
	switch out.Status {
	case CompressPreview:
		if out.Folded == 0 {
			return fmt.Sprintf("Nothing would be folded: all %d messages (%s) belong to the part that stays. /compress here 2 keeps the last two exchanges only.", out.RowsBefore, tokens)
		}
		if out.RefusedWouldGrow {
			return fmt.Sprintf("Nothing would be gained: a summary of %d of the %d messages (%s) would be no smaller than they are.", out.Folded, out.RowsBefore, tokens)
		}
		return fmt.Sprintf("%d of %d messages would be folded into a summary and %d stay: %s would become about %d. Nothing was changed.", out.Folded, out.RowsBefore, out.Kept, tokens, out.TokensAfter)
	case CompressDone:
		text := fmt.Sprintf("Folded %d messages into a summary: %d rows and %s became %d rows and about %d tokens. The messages stay searchable.", out.Folded, out.RowsBefore, tokens, out.RowsAfter, out.TokensAfter)
		if out.FallbackUsed {
			text += " No model could write the summary (" + out.Reason + "), so it is a poorer one."
		}
		return text + out.deadEnd()
	case CompressNothing:
		return fmt.Sprintf("Nothing was changed: %s (%d messages, %s).", out.Reason, out.RowsBefore, tokens) + out.deadEnd()
	case CompressLockSkipped:
		return "Nothing was changed: " + out.Reason + ". Try again when it has ended."
	case CompressNotStored:
		return "Nothing was changed, and nothing is lost: the summary could not be stored (" + out.Reason + "). It may be repeated."
	}
	if out.Aborted {
		return "Nothing was changed: it was stopped (" + out.Reason + ")."
	}
	return "Nothing was changed: there is no summary (" + out.Reason + ")."
}

func (out Compressed) deadEnd() string {
	if !out.DeadEnd {
		return ""
	}
	return " This conversation hardly gets smaller any more: /new starts a new one."
}
