package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

// resumeNote goes to the model when its turn goes on in another process. It is a row like any other: what is sent is what is
// stored.
const (
	resumeNote = "[gatewayd was restarted in the middle of this turn, and goes on with it now. Commands to restart or stop something that stand above " +
		"have happened already: do not run them again. Where an effect is called UNKNOWN, look before repeating it.]"
	cutShort  = "[This answer was cut off: the process ended.]"
	asideNote = "[Interrupted: gatewayd is stopping. This turn goes on by itself after the next start.]"
)

// resumption is what has to be written before a turn goes on from its rows.
type resumption struct {
	repair
}

// planResume decides, from the rows alone and the clock, how a turn goes on that was cut off: its last block of calls is dropped
// when it only reads and was interrupted, and completed when it is not; an old confirmation is withdrawn; and the model is told.
// It is idempotent. ok is false where there is nothing to go on with: the turn has ended, or has no row.
func planResume(rows []sessiondb.Message, turn string, now time.Time) (r resumption, ok bool) {
	if ended(rows, turn) {
		return r, false
	}
	r.turn = turn
	if last := rows[len(rows)-1]; last.Kind == sessiondb.KindResumed {
		return r, true
	}
	rows = r.interruptedBlock(rows)
	rows = r.openCalls(rows)
	r.confirmation(rows, now)
	if len(r.insert) == 0 && len(rows) > 0 && rows[len(rows)-1].Role == roleUser {
		r.insert = append(r.insert, sessiondb.NewMessage{TurnID: turn, Role: roleAssistant, Content: cutShort, FinishReason: finishInterrupted, Kind: kindCheckpoint})
	}
	r.insert = append(r.insert, sessiondb.NewMessage{TurnID: turn, Role: roleUser, Content: resumeNote, Kind: sessiondb.KindResumed})
	return r, true
}

// ended reports that nothing is left to do for a turn: its last row is an answer or closes it, another turn came after it, or it
// has no row.
func ended(rows []sessiondb.Message, turn string) bool {
	if len(rows) == 0 {
		return true
	}
	last := rows[len(rows)-1]
	if last.TurnID != turn {
		return true
	}
	return last.Role == roleAssistant && len(last.ToolCalls) == 0 && last.Kind != kindCheckpoint
}

// interruptedBlock drops the last block of calls when its results were cut short and none of its calls may have had an effect:
// the model asks again. A block with effects stays, and its results say that they are unknown.
func (r *resumption) interruptedBlock(rows []sessiondb.Message) []sessiondb.Message {
	start := len(rows) - 1
	cut := false
	for start >= 0 && rows[start].Role == roleTool {
		cut = cut || rows[start].Kind == kindInterrupted
		start--
	}
	if !cut || start < 0 || !readOnly(storedCalls(rows[start])) || mutation.On("interrupted-reads-are-kept") {
		return rows
	}
	r.notRun += len(storedCalls(rows[start]))
	r.supersede = append(r.supersede, rows[start:]...)
	return r.interruptedBlock(rows[:start])
}

// confirmation withdraws an old consent anywhere in the turn: a model that goes on much later must not take it for fresh.
func (r *resumption) confirmation(rows []sessiondb.Message, now time.Time) {
	for i := len(rows) - 1; i >= 0 && rows[i].TurnID == r.turn; i-- {
		if rows[i].Role == roleUser && staleConfirmation(rows[i], now) {
			r.withdraw = &rows[i]
			return
		}
	}
}

// reopen makes the transcript of a turn that goes on fit to be continued.
func (t *turn) reopen() error {
	rows, err := t.g.resume(t.ctx, t.lease, t.id)
	if errors.Is(err, errNothingToResume) {
		_, err = t.g.opts.Store.End(t.ctx, t.lease, t.id, nil)
		err = errors.Join(errNothingToResume, err)
	}
	if err != nil {
		t.giveUp()
		return t.notOpened(err)
	}
	t.rows, t.begun, t.result.Resumed = rows, true, t.say.pending.Attempts-1
	if t.system, err = t.prompt(); err != nil {
		return t.notOpened(err)
	}
	t.log.Info("turn resumed", "attempt", t.say.pending.Attempts)
	return nil
}

// giveUp closes a turn that somebody stopped before it went on.
func (t *turn) giveUp() {
	if context.Cause(t.ctx) != Stop {
		return
	}
	ctx, cancel := t.writing()
	defer cancel()
	if _, err := t.g.shut(ctx, t.lease, cutTurn{t.session.ID, t.say.pending, nil}, cutOffAnswer); err != nil {
		t.log.Warn("a stopped turn is still pending", "error", err)
	}
}

// errNothingToResume: the turn has ended after all.
var errNothingToResume = errors.New("the turn has ended")

// resume writes what planResume says, once, by compare-and-swap, and gives the rows as they are afterwards.
func (g *Gateway) resume(ctx context.Context, l sessiondb.Lease, turn string) ([]sessiondb.Message, error) {
	for {
		rows, err := g.opts.Store.Transcript(ctx, l.Session)
		if err != nil {
			return nil, fmt.Errorf("read transcript: %w", err)
		}
		r, ok := planResume(rows, turn, time.Now())
		switch {
		case !ok:
			return nil, errNothingToResume
		case r.empty():
			return rows, nil
		}
		r.refuse(g.opts.Approvals.refused(ctx, l.Session, turn))
		err = g.opts.Store.Repair(ctx, l, r.changes())
		if errors.Is(err, sessiondb.ErrRowChanged) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("repair transcript: %w", err)
		}
		return g.opts.Store.Transcript(ctx, l.Session)
	}
}

// putAside ends a detached turn's work because the daemon stops, in order and without an end: each call has its result, what was
// visible is kept, and the next start goes on from there.
func (t *turn) putAside(x exit) {
	rows := t.openResults()
	if x.partial != "" {
		rows = append(rows, sessiondb.NewMessage{Role: roleAssistant, Content: x.partial, FinishReason: finishInterrupted, Kind: kindCheckpoint})
	}
	t.result.Text = join(x.partial, asideNote)
	var err error
	if len(rows) > 0 {
		err = t.append(rows...)
	}
	ctx, cancel := t.writing()
	defer cancel()
	if err = errors.Join(err, t.g.opts.Store.Mark(ctx, sessiondb.MarkLeft, t.id)); err != nil {
		t.log.Error("turn not put aside in order, the next start repairs it", "error", err)
	}
}
