package gateway

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"

	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/sessiondb"
)

// emptyMost is how often a model that says nothing is asked again with a nudge.
const emptyMost = 2

// Nudges go with one request and are never stored.
const (
	continueNudge = "[The connection broke. Continue your answer exactly where it stopped; repeat nothing.]"
	lengthNudge   = "[Your answer reached its length limit. Continue it exactly where it stopped; repeat nothing.]"
	emptyNudge    = "[Your last answer was empty. Answer in words, or call a tool.]"
	graceNudge    = "[The steps of this turn are used up. Answer now, without calling a tool.]"
	summaryNudge  = "[The steps of this turn are used up. Say in a few sentences what was done, what is left and how to go on. No tool can be called any more.]"
)

// steps asks the model and runs its tools until there is an answer or a reason why there is none.
func (t *turn) steps() exit {
	empty, invalid, nudges := 0, 0, []provider.Message(nil)
	for n := t.used() + 1; n <= t.tuned.MaxIterations; n++ {
		if end := t.makeRoom(); end != nil {
			return *end
		}
		answer, end := t.ask(nudges...)
		nudges = nil
		switch {
		case end != nil:
			return *end
		case len(answer.ToolCalls) == 0 && strings.TrimSpace(answer.Text) != "":
			return exit{answer: &answer, reason: "text_response", finish: answer.FinishReason}
		case len(answer.ToolCalls) == 0:
			if empty++; empty > emptyMost || answer.FinishReason == "content_filter" {
				return emptyExit(t.modelName(), answer.FinishReason, t.afterTool())
			}
			nudges = nudge("", emptyNudge)
			continue
		}
		usable, end := t.round(answer, n)
		if end != nil {
			return *end
		}
		if empty, invalid = 0, invalid+1; usable {
			invalid = 0
		}
		if invalid >= invalidMax {
			return invalidExit()
		}
		if what := t.guard.stop(); what != "" && t.tuned.LoopHardStop {
			return guardExit(what)
		}
	}
	return t.exhausted()
}

// used counts the rounds that an earlier process made of this turn: they count towards its steps.
func (t *turn) used() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.rows {
		if row := &t.rows[i]; row.TurnID == t.id && row.Role == roleAssistant && len(row.ToolCalls) > 0 {
			n++
		}
	}
	return min(n, t.tuned.MaxIterations)
}

// afterTool reports that the turn's last row is a tool's result.
func (t *turn) afterTool() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.rows) > 0 && t.rows[len(t.rows)-1].Role == roleTool
}

// exhausted ends a turn whose steps are used up: one more call in which the model may still answer, and then one without tools
// for a summary. Calls that it asks for all the same are not run and not stored.
func (t *turn) exhausted() exit {
	if end := t.makeRoom(); end != nil {
		return *end
	}
	most := t.tuned.MaxIterations
	answer, end := t.ask(nudge("", graceNudge)...)
	switch {
	case end != nil && end.cause != "":
		return *end
	case end == nil && len(answer.ToolCalls) == 0 && strings.TrimSpace(answer.Text) != "":
		return exit{answer: &answer, reason: "text_response", finish: answer.FinishReason}
	}
	said := answer.Text
	t.bare = true
	answer, end = t.ask(nudge("", summaryNudge)...)
	if end != nil && end.cause != "" {
		return *end
	}
	return budgetExit(most, join(said, answer.Text))
}

func (t *turn) modelName() string { return t.model.Describe().Name }

// nudge is what goes behind a request for one time: what the model said so far, and what it is told.
func nudge(said, told string) []provider.Message {
	if said == "" {
		said = "[nothing]"
	}
	return []provider.Message{{Role: roleAssistant, Content: said}, {Role: roleUser, Content: told}}
}

// Bounds of what one answer may take: continuations of a stream that broke after text was shown, which the provider does not
// repeat; continuations of an answer that reached its length limit; and tries after a conversation was made smaller.
const (
	brokenMost   = 3
	lengthMost   = 3
	overflowMost = 3
)

// ask sends one request, made from the rows alone, and gives the whole answer. When the stream breaks after text was shown, or the
// answer reached its length limit, the rest is asked for with the text so far and a nudge, neither of which is ever stored: the
// joined text is.
func (t *turn) ask(nudges ...provider.Message) (provider.Response, *exit) {
	request, show, text, told := t.request(), t.shower(), "", ""
	for broken, cut, over := 0, 0, 0; ; {
		t.enter("model")
		if t.ctx.Err() != nil {
			end := interruptedExit(t.ctx, text)
			return provider.Response{}, &end
		}
		sent := request
		if text != "" {
			nudges = nudge(text, told)
		}
		sent.Messages = append(slices.Clip(request.Messages), nudges...)
		answer, err := t.call(request, sent, show)
		if err == nil {
			grew := strings.TrimSpace(answer.Text) != ""
			answer.Text = text + answer.Text
			if answer.FinishReason == finishLength && len(answer.ToolCalls) == 0 && grew && cut < lengthMost && t.say.Wishes.MaxTokens == 0 {
				text, told, cut = answer.Text, lengthNudge, cut+1
				continue
			}
			return answer, nil
		}
		partial := partialOf(err).Text
		text += partial
		switch {
		case t.ctx.Err() != nil:
		case partial != "" && broken < brokenMost && breaks(err):
			told, broken = continueNudge, broken+1
			continue
		case over < overflowMost && t.overflowed(err):
			request, told, over = t.request(), cmp.Or(told, continueNudge), over+1
			continue
		}
		end := modelExit(err, t.modelName())
		if t.ctx.Err() != nil {
			end = interruptedExit(t.ctx, "")
		}
		end.partial = text
		return provider.Response{}, &end
	}
}

// call makes one call of the model and counts its cost. The request is what the rows made; sent may carry a nudge behind it.
func (t *turn) call(request, sent provider.Request, show func(provider.Delta)) (provider.Response, error) {
	t.settle() // the answer before has no row of its own: it was empty, or goes on
	carried := t.lastRow()
	answer, err := t.model.Complete(t.ctx, sent, show)
	t.result.Calls++
	t.progress.touch()
	if err == nil {
		if answer.Window > 0 {
			t.room.Narrow(tool.BudgetFor(answer.Window))
		}
		t.spend(answer, t.compare(request, carried, answer))
	} else if partial := partialOf(err); partial.Usage != (provider.Usage{}) {
		t.spend(partial, nil)
	}
	return answer, err
}

// lastRow is the newest row of the transcript.
func (t *turn) lastRow() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.rows); n > 0 {
		return t.rows[n-1].ID
	}
	return 0
}

// breaks reports a failure of the wire, after which the rest of an answer may still be had.
func breaks(err error) bool {
	e, ok := errors.AsType[*provider.Error](err)
	return ok && (e.Class == provider.Transport || e.Class == provider.Timeout || e.Class == provider.ServerError)
}

func partialOf(err error) provider.Response {
	if e, ok := errors.AsType[*provider.Error](err); ok {
		return e.Partial
	}
	return provider.Response{}
}

// shower passes on what arrives. Text of a later answer in the same turn begins a new paragraph.
func (t *turn) shower() func(provider.Delta) {
	begun := false
	return func(d provider.Delta) {
		t.progress.touch()
		if d.Reasoning != "" {
			t.sink.put(Event{Kind: EventReasoning, Text: d.Reasoning})
		}
		if d.Text != "" {
			if !begun && t.spoke {
				t.sink.put(Event{Kind: EventDelta, Text: joinAnswer})
			}
			begun, t.spoke = true, true
			t.sink.put(Event{Kind: EventDelta, Text: d.Text})
		}
		if d.Notice != "" {
			t.sink.put(Event{Kind: EventNotice, Text: d.Notice})
		}
	}
}

// close writes the last row of the turn, and only then is there a result.
func (t *turn) close(x exit) {
	t.enter("close")
	defer t.settle()
	if x.answer == nil && context.Cause(t.ctx) == LeaseLost {
		x = interruptedExit(t.ctx, x.partial) // whatever failed, failed because of that
	}
	t.result.ExitReason, t.result.FinishReason = x.reason, x.finish
	if x.answer != nil {
		t.answer(x.answer)
		return
	}
	t.result.Interrupted, t.result.Failed = x.cause != "", x.cause == ""
	t.result.Error, t.result.Class, t.result.Retryable = x.problem, x.class, x.retryable
	row := closingRow(x)
	t.result.Text = row.Content
	switch {
	case x.cause == LeaseLost:
		return
	case x.cause == Drain && t.say.Detached && t.begun:
		t.putAside(x)
		return
	}
	if err := t.finish(append(t.openResults(), row)...); err != nil {
		t.log.Error("closing rows not stored", "error", err, "exit", x.reason, "spooled", errors.Is(err, sessiondb.ErrSpooled))
		if t.result.Error == nil {
			t.result.Error = storageProblem("the end of the turn", err)
		}
	}
}

// answer stores the final text (P5). A text that could not be stored is shown with a warning, and the turn counts as failed.
func (t *turn) answer(answer *provider.Response) {
	if t.result.FinishReason == "" {
		t.result.FinishReason = finishStop
	}
	t.result.Text, t.result.Completed = answer.Text, true
	err := t.finish(sessiondb.NewMessage{
		Role: roleAssistant, Content: answer.Text, FinishReason: t.result.FinishReason, Reasoning: answer.Reasoning,
	})
	if err == nil {
		t.rolled()
		return
	}
	kept := whereKept(err)
	t.result.Completed, t.result.Failed, t.result.Retryable = false, true, kept == ""
	t.result.ExitReason, t.result.FinishReason = "session_persistence_failed", finishNotStored
	t.result.Error = storageProblem("the answer", err)
	if kept == "" {
		kept = " It will be missing from the conversation."
	}
	t.result.Text += joinAnswer + "[This answer could not be saved." + kept + " " + t.result.Error.Error() + "]"
	t.log.Error("answer not stored", "error", err)
}

// openResults answers calls that are still without a result, so that the sequence stays valid. A result in the spool is one; a
// call in the spool was never run.
func (t *turn) openResults() []sessiondb.NewMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := t.rows
	var unrun []sessiondb.NewMessage
	for _, row := range t.spooled {
		kept := sessiondb.Message{Role: row.Role, ToolCalls: row.ToolCalls, ToolCallID: row.ToolCallID}
		if row.Role == roleTool {
			rows = append(rows[:len(rows):len(rows)], kept)
		}
		for _, call := range storedCalls(kept) {
			unrun = append(unrun, sessiondb.NewMessage{
				Role: roleTool, Content: neverStored, ToolCallID: call.ID, ToolName: call.Function.Name, Effect: intentNone, Kind: kindRepair,
			})
		}
	}
	var r repair
	r.openCalls(rows)
	return append(r.insert, unrun...)
}

func closingRow(x exit) sessiondb.NewMessage {
	row := sessiondb.NewMessage{Role: roleAssistant, Content: join(x.partial, x.note), FinishReason: x.finish, Kind: kindClosing}
	if x.cause == Redirect && x.partial != "" {
		row.Content, row.Kind = x.partial, kindCheckpoint
	}
	return row
}

// stacks is every goroutine's stack, bounded, for the log of a stalled turn.
func stacks() string {
	buffer := make([]byte, 256<<10)
	return string(buffer[:runtime.Stack(buffer, true)])
}
