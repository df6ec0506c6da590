package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gatewayd/gateway/provider"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// Finish reasons of rows and results that are ours; the others are the provider's words.
const (
	finishStop        = "stop"
	finishLength      = "length"
	finishInterrupted = "interrupted"
	finishError       = "error"
	finishBudget      = "budget"
	finishEmpty       = "empty"
	finishNotStored   = "not_stored"
)

// exit is how a turn's steps ended. With answer set it is an answer; otherwise note explains to a person, in the words of the
// closing row, why there is none, and partial is text that was visible already.
type exit struct {
	answer    *provider.Response
	reason    string // ExitReason
	finish    string
	partial   string
	note      string
	cause     Cause // the interrupt, when it was one
	problem   *problem.Error
	class     provider.Class
	retryable bool
}

// interruptedExit ends a turn whose context carries a cause.
func interruptedExit(ctx context.Context, partial string) exit {
	cause := causeOf(ctx)
	return exit{
		reason: "interrupted(" + cause.name() + ")", finish: finishInterrupted, partial: partial, note: cause.note(), cause: cause,
		retryable: true,
	}
}

// modelExit ends a turn because the model could not answer.
func modelExit(err error, model string) exit {
	x := exit{reason: "model_failed", finish: finishError, class: provider.Unknown}
	what, remedy := err.Error(), ""
	if e, ok := errors.AsType[*provider.Error](err); ok {
		x.class, x.partial, what, remedy = e.Class, e.Partial.Text, e.Message, e.Remedy
		x.reason = "model_failed(" + string(e.Class) + ")"
		if e.Attempts > 1 {
			what += fmt.Sprintf(" (%d attempts)", e.Attempts)
		}
	}
	x.retryable = x.class.Passes()
	x.problem = &problem.Error{
		Kind: kindOf(x.class), Thing: "model " + model, What: "could not answer: " + what, Fate: "the message is stored", Remedy: remedy, Err: said{err},
	}
	x.note = "[The model could not answer: " + strings.TrimRight(what, ".") + "."
	if remedy != "" {
		x.note += " " + strings.ToUpper(remedy[:1]) + strings.TrimRight(remedy[1:], ".") + "."
	}
	x.note += "]"
	return x
}

// said keeps the cause of a problem that tells it already in its own words.
type said struct{ error }

func (said) Error() string   { return "" }
func (s said) Unwrap() error { return s.error }

func kindOf(class provider.Class) problem.Kind {
	switch class {
	case provider.Auth, provider.Billing, provider.ModelNotFound:
		return problem.Config
	case provider.RateLimit, provider.UpstreamLimit, provider.Overloaded:
		return problem.Busy
	case provider.ContextOverflow, provider.PayloadTooLarge, provider.FormatError:
		return problem.Invalid
	case provider.ContentPolicy:
		return problem.Denied
	}
	return problem.Unavailable
}

// notStored ends a turn because rows could not be written: nothing runs and nothing is sent on unstored ground.
func notStored(what string, err error) *exit {
	return &exit{
		reason: "session_persistence_failed", finish: finishNotStored,
		note:    "[Ended: " + what + " could not be stored, so the turn was not continued." + whereKept(err) + "]",
		problem: storageProblem(what, err), retryable: !errors.Is(err, sessiondb.ErrSpooled),
	}
}

// whereKept says that nothing is lost, where that is so.
func whereKept(err error) string {
	if !errors.Is(err, sessiondb.ErrSpooled) {
		return ""
	}
	return " What was said so far is kept beside the database and comes into this conversation when the database is mended."
}

// storageProblem keeps the store's own sentence (disk full, locked, damaged, lease lost) and says which part it cost.
func storageProblem(what string, err error) *problem.Error {
	p := &problem.Error{
		Kind: problem.Unavailable, Thing: what, What: "could not be stored", Fate: "earlier rows are kept", Remedy: "see `gatewayd doctor`, then send the message again", Err: err,
	}
	if cause, ok := errors.AsType[*problem.Error](err); ok {
		p.Kind, p.Remedy = cause.Kind, ""
	}
	return p
}

// budgetExit ends a turn that used up its steps; summary is what the model said of it when it was asked without tools.
func budgetExit(n int, summary string) exit {
	return exit{
		reason: fmt.Sprintf("max_iterations_reached(%d/%d)", n, n), finish: finishBudget, retryable: true, partial: summary,
		note: fmt.Sprintf("[Stopped after %d steps, the limit of one turn (agent.max_iterations). What was done so far is kept; send a message to go on.]", n),
		problem: &problem.Error{
			Kind: problem.Unavailable, Thing: "the turn", What: fmt.Sprintf("used up its %d steps without an answer", n), Fate: "its rows are stored",
			Remedy: "send a message to go on, or raise agent.max_iterations",
		},
	}
}

// emptyExit ends a turn whose model says nothing. After a tool's result the turn would end on that bare row, which is named.
func emptyExit(model, finish string, afterTool bool) exit {
	note := fmt.Sprintf("[The model gave an empty answer %d times.]", emptyMost+1)
	what := fmt.Sprintf("gave an empty answer %d times", emptyMost+1)
	switch finish {
	case "content_filter":
		note, what = "[The provider's content filter withheld the answer.]", "had its answer withheld by the provider's content filter"
	case finishLength:
		note = "[The model used up the length of its answer without saying anything, " + fmt.Sprint(emptyMost+1) + " times.]"
	}
	x := exit{reason: "empty_answer", finish: finishEmpty, note: note, retryable: true, problem: &problem.Error{
		Kind: problem.Unavailable, Thing: "model " + model, What: what, Fate: "the message is stored", Remedy: "send it again or rephrase it",
	}}
	if afterTool {
		x.reason = "pending_tool_result"
		x.note += " [What the tools did is kept; send a message to go on.]"
	}
	return x
}

func invalidExit() exit {
	return exit{
		reason: "invalid_tool_calls", finish: finishError, retryable: true,
		note: fmt.Sprintf("[Ended: the model asked %d times in a row for tools that do not exist or with unreadable arguments. None of them was run.]", invalidMax),
		problem: &problem.Error{
			Kind: problem.Unavailable, Thing: "the model", What: "keeps asking for tools that do not exist or with unreadable arguments",
			Fate: "none of them was run", Remedy: "try another model; small ones often cannot call tools",
		},
	}
}
