package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

const roundWorkers = 8 // calls of one answer that run at a time

// round stores an answer's calls with their intents (P2), runs them, and stores each result as it comes (P3). Nothing runs when
// the calls could not be stored, and nobody sees a result whose row is not there. usable is false when no call could be run.
func (t *turn) round(answer provider.Response, number int) (usable bool, end *exit) {
	calls := plan(answer.ToolCalls, t.id, number, t.toolset())
	if answer.FinishReason == finishLength {
		markCut(calls)
	}
	if err := t.append(callsRow(answer, calls)); err != nil {
		return false, notStored("the tool calls", err)
	}
	t.enter("tools")
	if err := t.runAll(calls); err != nil {
		return false, notStored("a tool's result", err)
	}
	if t.redirected() {
		t.cancel(Redirect)
	}
	if err := t.takeSteers(); err != nil {
		return false, notStored("what was said into the turn", err)
	}
	for _, call := range calls {
		usable = usable || call.usable
	}
	return usable, nil
}

// markCut marks calls whose arguments ended at the length limit.
func markCut(calls []planned) {
	for i := range calls {
		calls[i].cut = !(provider.ToolCall{Arguments: calls[i].args}).Complete()
	}
}

// takeSteers stores what was said into the turn, directly behind the results that are there (P4).
func (t *turn) takeSteers() error {
	if t.ctx.Err() != nil {
		return nil // it waits for the next turn
	}
	steers := t.g.steersOf(t.session.ID)
	if len(steers) == 0 {
		return nil
	}
	rows := make([]sessiondb.NewMessage, 0, len(steers))
	for _, w := range steers {
		rows = append(rows, sessiondb.NewMessage{UID: w.UID, Role: roleUser, Content: w.Content, Wire: w.Wire, Kind: sessiondb.KindSteer})
	}
	if err := t.append(rows...); err != nil {
		t.g.unsteer(t.session.ID, steers)
		return err
	}
	for _, w := range steers {
		t.sink.put(Event{Kind: EventSteered, Text: w.Content})
	}
	return nil
}

func callsRow(answer provider.Response, calls []planned) sessiondb.NewMessage {
	stored, effect := make([]storedCall, 0, len(calls)), intentNone
	for _, call := range calls {
		stored = append(stored, call.stored)
		if call.stored.Intent != intentNone {
			effect = intentPossible
		}
	}
	if len(stored) > 0 {
		stored[0].Thinking = answer.Thinking
	}
	return sessiondb.NewMessage{
		Role: roleAssistant, Content: answer.Text, ToolCalls: marshalCalls(stored), Effect: effect,
		FinishReason: "tool_calls", Reasoning: answer.Reasoning,
	}
}

// errBatch ends the calls of one answer that take too long together.
type errBatch time.Duration

func (e errBatch) Error() string {
	return "the calls of one answer may take " + time.Duration(e).String() + " together"
}

// runAll runs the calls, eight at a time in their order, and gives the first failure to store a result; the others are then
// stopped. Calls that an interrupt or the deadline of several calls kept from starting are answered as not run. A single call has
// its own timeout only.
func (t *turn) runAll(calls []planned) error {
	ctx, stop := context.WithCancelCause(t.ctx)
	defer stop(nil)
	if limit := t.tuned.BatchTimeout; limit > 0 && len(calls) > 1 {
		timer := time.AfterFunc(limit, func() { stop(errBatch(limit)) })
		defer timer.Stop()
	}
	var (
		wg    sync.WaitGroup
		once  sync.Once
		first error
		slots = make(chan struct{}, roundWorkers)
	)
	for i, call := range calls {
		if call.twin >= 0 {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := t.runOne(ctx, call, twins(calls, i)); err != nil {
				once.Do(func() { first = err; stop(err) })
			}
		})
	}
	wg.Wait()
	return first
}

// twins gives the calls that share the run of call i, itself first.
func twins(calls []planned, i int) []planned {
	out := []planned{calls[i]}
	for _, call := range calls {
		if call.twin == i {
			out = append(out, call)
		}
	}
	return out
}

// runOne runs a call, stores its row and then shows it.
func (t *turn) runOne(ctx context.Context, call planned, all []planned) error {
	name, result := call.stored.Function.Name, skipped(ctx)
	switch {
	case ctx.Err() != nil:
	case t.redirected():
		result = notRun(Redirect)
	case call.cut && !mutation.On("cut-call-is-mended"):
		result = tool.Refuse("the answer ended at its length limit in the middle of this call of %s, so its arguments were truncated; nothing was run. "+
			"Send it again, shorter or in several calls", name)
	default:
		t.sink.put(Event{Kind: EventToolStarted, Tool: name, CallID: call.stored.ID, Text: call.args})
		result = t.perform(ctx, call)
	}
	t.progress.touch()
	result.Content += t.guard.look(call, result)
	result.Content = t.room.Fit(t.toolCall(call), result.Content)
	rows := make([]sessiondb.NewMessage, 0, len(all))
	for _, twin := range all {
		rows = append(rows, sessiondb.NewMessage{
			Role: roleTool, Content: result.Content, ToolCallID: twin.stored.ID, ToolName: name, Effect: string(result.Effect), Kind: kindOfResult(result),
		})
	}
	if mutation.On("result-is-not-stored") {
		t.take([]sessiondb.Message{{ID: 1 << 60, Role: roleTool, Content: result.Content, ToolCallID: call.stored.ID}})
	} else if err := t.append(rows...); err != nil {
		return err
	}
	for _, twin := range all {
		t.sink.put(Event{Kind: EventToolFinished, Tool: name, CallID: twin.stored.ID, Text: result.Content, Err: result.Err})
	}
	return nil
}

// kindOfResult marks a result that an interrupt cut short, so that a turn that goes on later knows it without reading its words.
func kindOfResult(r tool.Result) string {
	if r.Interrupted {
		return kindInterrupted
	}
	if r.Err && !mutation.On("failures-are-not-kept") {
		return sessiondb.KindFailed
	}
	return ""
}

// skipped is the answer to a call that an interrupt kept from starting.
func skipped(ctx context.Context) tool.Result {
	if cause := context.Cause(ctx); cause != nil {
		return notRun(cause)
	}
	return tool.Result{}
}

func notRun(cause error) tool.Result {
	return tool.Result{Content: "[not run: " + cause.Error() + "]", Err: true, Effect: tool.EffectNone, Interrupted: true}
}

// perform runs a call through the set, which holds the gate. A tool that does not stop when it is told is left behind: the turn
// has to end.
func (t *turn) perform(ctx context.Context, call planned) tool.Result {
	if t.toolset().Class(call.name, json.RawMessage(call.args)) == tool.ClassDestructive {
		t.serial.Lock()
		defer t.serial.Unlock()
		if ctx.Err() != nil {
			return skipped(ctx)
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := make(chan tool.Result, 1)
	go func() { done <- t.toolset().Run(ctx, t.toolCall(call)) }()
	detach := t.detach
	for waiting := true; waiting; {
		select {
		case result := <-done:
			return result
		case <-detach:
			detach = nil
			if !t.g.opts.Tools.Detach(t.session.ID, call.stored.ID) {
				stop(Redirect)
			}
		case <-ctx.Done():
			waiting = false
		}
	}
	late := time.NewTimer(stopTimeout)
	defer late.Stop()
	select {
	case result := <-done:
		return result
	case <-late.C:
		t.log.Error("tool did not stop", "tool", call.name, "waited", stopTimeout.String())
		return tool.Result{Content: "[this call did not stop when it was told; its effect is UNKNOWN]", Err: true, Effect: tool.EffectUnknown, Interrupted: true}
	}
}

// toolCall is a call with everything its tool may rely on.
func (t *turn) toolCall(call planned) tool.Call {
	return tool.Call{
		Session: t.session.ID, Turn: t.id, ID: call.stored.ID, Name: call.name, Args: json.RawMessage(call.args),
		Dir: cmp.Or(t.say.Dir, t.session.Cwd, t.g.opts.Dir), Policy: t.policy(), Room: t.room.Left(), Shown: t.shown,
		Progress: t.progress.touch, Log: t.log,
	}
}

// shown is the result of an earlier call as requests carry it now: a function of the live rows alone, so that a compaction, a
// repair or a rewind needs to tell no tool.
func (t *turn) shown(turn, call string) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, row := range t.rows {
		if row.Role == roleTool && row.ToolCallID == call && row.TurnID == turn {
			return sent(row), true
		}
	}
	return "", false
}
