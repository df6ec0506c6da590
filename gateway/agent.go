package gateway

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// Card is the work a worker process was given: one card of a board, one run.
type Card struct {
	Board, Task string
	Run         int64
	Text        string        // the task's text, as the dispatcher wrote it to the worker's file
	Dir         string        // the workspace
	Ended       func() bool   // whether the board's tools have completed or blocked the card (tool.BoardTools gives it)
	Active      func()        // told again and again while the worker works, by which it keeps its claim; nil: nobody is
	Beat        time.Duration // between two of them; 0 means DefaultBeat
}

// DefaultBeat is far below the shortest claim that anybody configures, and rare enough to cost nothing.
const DefaultBeat = 20 * time.Second

// Exit codes of a worker process, as the dispatcher reads them.
const (
	ExitDone        = 0   // the turn ended; the board says whether the card was completed
	ExitFailed      = 1   // the turn failed; the dispatcher counts a crash
	ExitRateLimited = 75  // the provider asked to wait; the card is not blamed
	ExitUnusable    = 78  // no model, or the provider will refuse again; the card is blocked at once
	ExitTimedOut    = 124 // the steps of its turn were used up; the run timed out, as timeout(1) says it
)

// workerPrompt follows the system prompt that every conversation begins with, in a card's session. It holds nothing of the card, so
// all workers share one prefix.
const workerPrompt = "You are a worker of gatewayd. The user message is a card of a task board: do what it asks, in the working directory, with the " +
	"tools you have. When it is done, call kanban_complete once, with a summary of what you did and found. When you cannot go on without " +
	"somebody, call kanban_block with what you need. Never end without one of the two."

// reminder is for a model that answered and forgot to end its card; one reminder saves a whole run.
const reminder = "Your card is still open. Call kanban_complete with a summary if it is done, or kanban_block with the reason if it cannot be done now."

// Work runs the turn of a card, writes what a person should find in the worker's log to out, and gives the process's exit code; why
// is for who reads the card, where the turn did not end it: what happened and what to do. A run has a session of its own; the next
// run of the card begins a new one.
func (g *Gateway) Work(ctx context.Context, card Card, out io.Writer) (code int, why string) {
	if about := g.tuned().Model.Describe(); about.Offline {
		return ExitUnusable, "no model is connected, so this lane cannot work: set model.base_url and model.name in config.yaml, or give the lane another preset"
	}
	defer card.beat()()
	text := card.Text
	for range 2 {
		result, err := g.Say(ctx, Say{
			Key: fmt.Sprintf("card:%s:%s:%d", card.Board, card.Task, card.Run), Source: SourceWorker, System: g.opts.SystemPrompt + "\n\n" + workerPrompt,
			Title: card.Task, Dir: card.Dir, Text: text,
		}, workerLog(out, card.Active))
		if err != nil {
			return exitOf(err, ""), err.Error()
		}
		fmt.Fprintf(out, "\n%s\n[session %s, %s, %d model calls]\n", result.Text, result.Session, result.ExitReason, result.Calls)
		switch {
		case card.Ended != nil && card.Ended():
			return ExitDone, ""
		case result.FinishReason == finishBudget && !mutation.On("used-up-budget-is-done"):
			return ExitTimedOut, result.because("all steps of its turn were used up; raise agent.max_iterations, or ask for less in one card")
		case result.Error != nil:
			return exitOf(result.Error, result.Class), result.because(strings.Trim(result.Error.Thing+" "+result.Error.What+"; "+result.Error.Remedy, "; "))
		case !result.Completed:
			return ExitFailed, result.because(result.Text)
		}
		text, why = reminder, result.because(fmt.Sprintf("the model was reminded and answered without a call of kanban_complete or kanban_block; many small models cannot call tools. It said: %.200q", result.Text))
	}
	return ExitDone, why
}

// because says where to look, too.
func (r Result) because(what string) string {
	return fmt.Sprintf("%s (%s, session %s)", what, r.ExitReason, r.Session)
}

// beat keeps the claim for as long as the worker works, also in a command that says nothing for hours. A turn that hangs is the
// turn watchdog's to end.
func (c Card) beat() (stop func()) {
	if c.Active == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(cmp.Or(c.Beat, DefaultBeat))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				c.Active()
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// exitOf tells the dispatcher who is to blame: nobody, the provider for good, or this run.
func exitOf(err error, class provider.Class) int {
	switch class {
	case provider.RateLimit, provider.UpstreamLimit, provider.Overloaded:
		return ExitRateLimited
	case provider.Auth, provider.Billing, provider.ModelNotFound:
		return ExitUnusable
	}
	if problem.Is(err, problem.Config) {
		return ExitUnusable
	}
	return ExitFailed
}

// workerLog writes a turn's events as a person reads them in a log. The answer's text is written at the end.
func workerLog(out io.Writer, active func()) func(Event) {
	return func(e Event) {
		switch e.Kind {
		case EventToolStarted:
			if active != nil {
				active()
			}
			fmt.Fprintf(out, "> %s %s\n", e.Tool, e.Text)
		case EventToolFinished:
			fmt.Fprintf(out, "%s\n", e.Text)
		case EventNotice:
			fmt.Fprintf(out, "! %s\n", e.Text)
		}
	}
}
