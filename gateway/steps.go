package gateway

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"

	"gatewayd/gateway/provider"
	"gatewayd/sessiondb"
)

// steps asks the model and runs its tools until there is an answer or a reason why there is none.
func (t *turn) steps() exit {
	empty, invalid := 0, 0
	for n := 1; n <= t.g.opts.MaxIterations; n++ {
		answer, end := t.ask()
		switch {
		case end != nil:
			return *end
		case len(answer.ToolCalls) == 0 && strings.TrimSpace(answer.Text) != "":
			return exit{answer: &answer, reason: "text_response", finish: answer.FinishReason}
		case len(answer.ToolCalls) == 0:
			if empty++; empty > 1 || answer.FinishReason == "content_filter" {
				return emptyExit(t.model(), answer.FinishReason)
			}
			continue
		}
		usable, end := t.round(answer, n)
		switch {
		case end != nil:
			return *end
		case usable:
			invalid = 0
		default:
			invalid++
		}
		if invalid >= invalidMax {
			return invalidExit()
		}
	}
	return budgetExit(t.g.opts.MaxIterations)
}

func (t *turn) model() string { return t.g.opts.Model.Describe().Name }

// Continuations of an answer whose stream broke after text was shown; the provider does not repeat those.
const (
	continuations = 3
	continueNudge = "[The connection broke. Continue your answer exactly where it stopped; repeat nothing.]"
)

// ask sends one request, made from the rows alone, and gives the whole answer. When the stream breaks after text was shown, the
// rest is asked for with the text so far and a nudge, neither of which is ever stored: the joined text is.
func (t *turn) ask() (provider.Response, *exit) {
	request, show, text := t.request(), t.shower(), ""
	for broken := 0; ; broken++ {
		t.enter("model")
		if t.ctx.Err() != nil {
			end := interruptedExit(t.ctx, text)
			return provider.Response{}, &end
		}
		answer, err := t.call(continued(request, text), show)
		if err == nil {
			answer.Text = text + answer.Text
			return answer, nil
		}
		partial := partialOf(err).Text
		text += partial
		if t.ctx.Err() == nil && partial != "" && broken < continuations && breaks(err) {
			continue
		}
		end := modelExit(err, t.model())
		if t.ctx.Err() != nil {
			end = interruptedExit(t.ctx, "")
		}
		end.partial = text
		return provider.Response{}, &end
	}
}

// call makes one call of the model and counts its cost.
func (t *turn) call(request provider.Request, show func(provider.Delta)) (provider.Response, error) {
	answer, err := t.g.opts.Model.Complete(t.ctx, request, show)
	t.result.Calls++
	t.progress.touch()
	if err == nil {
		t.spend(answer)
	} else if partial := partialOf(err); partial.Usage != (provider.Usage{}) {
		t.spend(partial)
	}
	return answer, err
}

func continued(request provider.Request, text string) provider.Request {
	if text == "" {
		return request
	}
	request.Messages = append(slices.Clone(request.Messages),
		provider.Message{Role: roleAssistant, Content: text}, provider.Message{Role: roleUser, Content: continueNudge})
	return request
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

// spend adds an answer's tokens to the session's sums. It runs beside the writing of the answer's row, so that both share one
// commit; the turn's end waits for it.
func (t *turn) spend(answer provider.Response) {
	u := answer.Usage
	t.result.Usage.Prompt += u.Prompt
	t.result.Usage.Completion += u.Completion
	t.result.Usage.Cached += u.Cached
	t.result.Usage.Reasoning += u.Reasoning
	about := t.g.opts.Model.Describe()
	model := answer.Model
	if model == "" {
		model = about.Name
	}
	t.spending.Go(func() {
		ctx, cancel := t.writing()
		defer cancel()
		err := t.g.opts.Store.AddUsage(ctx, sessiondb.UsageDelta{
			Session: t.session.ID, Model: model, Provider: about.Provider,
			Counts: sessiondb.Counts{Calls: 1, Prompt: u.Prompt, Completion: u.Completion, Cached: u.Cached, Reasoning: u.Reasoning},
		})
		if err != nil {
			t.log.Warn("usage not stored", "error", err, "prompt", u.Prompt, "completion", u.Completion)
		}
	})
}

// close writes the last row of the turn, and only then is there a result.
func (t *turn) close(x exit) {
	t.enter("close")
	defer t.spending.Wait()
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
	if x.cause == LeaseLost {
		return
	}
	if err := t.append(append(t.openResults(), row)...); err != nil {
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
	err := t.append(sessiondb.NewMessage{
		Role: roleAssistant, Content: answer.Text, FinishReason: t.result.FinishReason, Reasoning: answer.Reasoning,
	})
	if err == nil {
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
