package dispatch

import (
	"fmt"
	"time"

	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

// Exit codes with a meaning (sysexits.h): a worker that met a rate limit says 75; one that no repetition can help, because
// its configuration or its provider will not have it, says 78; one whose time or steps are used up says 124, as timeout(1) does.
const (
	exitTempFail = 75
	exitConfig   = 78
	exitTimedOut = 124

	configText = "exited with code 78: it says that its configuration is wrong"
)

// Cause is why we asked a worker to end.
type Cause string

const (
	NoCause    Cause = ""
	TimeUp     Cause = "timed_out" // its run was longer than allowed
	NoSign     Cause = "stale"     // no heartbeat for too long
	ClaimOver  Cause = "reclaimed" // its claim ran out and it showed no life
	RunOver    Cause = "run_over"  // its run had ended, it had not
	OperatorOf Cause = "operator"  // somebody asked for it
)

// Verdict is what a worker's end means for its card.
type Verdict struct {
	Complete bool   // the card is done
	Outcome  string // of the run
	Event    string
	Error    string
	Exit     string // exit_kind in the event's payload
	Code     int
	Count    bool // counts towards the breaker
	TripNow  bool // the breaker trips at once
	Sticky   bool // and stays until a person unblocks the card
	Protocol bool // a streak of its own decides
}

// Classify turns an exit into a verdict. It is asked only for runs that are still open, so a worker that ended
// its card itself never comes here.
func Classify(exit worker.Exit, ending worker.Ending, cause Cause, limit time.Duration) Verdict {
	switch exit.Kind {
	case worker.Deadline:
		return timedOut(exit.Ran, limit)
	case worker.Stopped:
		return stopped(exit, cause, limit)
	case worker.HostEnded:
		return Verdict{Outcome: kanban.OutcomeReclaimed, Event: kanban.EventReclaimed, Exit: "host_ended", Error: "the machine or container restarted under the worker"}
	case worker.NotStarted:
		return notStarted()
	case worker.StartFailed:
		return Verdict{Outcome: kanban.OutcomeSpawnFailed, Event: kanban.EventSpawnFailed, Exit: "start_failed", Error: exit.Error, Count: true}
	case worker.Lost:
		return crashed("keeper_lost", fmt.Sprintf("pid %d lost: its keeper was killed", exit.PID))
	case worker.Signaled:
		return crashed("signaled", fmt.Sprintf("pid %d killed by signal %d", exit.PID, exit.Signal))
	case worker.Exited:
		return byCode(exit.PID, exit.Code, ending)
	}
	return crashed("unknown", fmt.Sprintf("pid %d not alive", exit.PID))
}

func byCode(pid, code int, ending worker.Ending) Verdict {
	switch {
	case code == 0 && ending == worker.ByExit:
		return Verdict{Complete: true, Outcome: kanban.OutcomeCompleted, Event: kanban.EventCompleted}
	case code == 0:
		return Verdict{
			Outcome: kanban.OutcomeCrashed, Event: kanban.EventProtocolViolation, Exit: "clean_exit", Protocol: true,
			Error: fmt.Sprintf("pid %d exited with code 0 without completing or blocking its card", pid),
		}
	case code == exitTempFail:
		return Verdict{
			Outcome: kanban.OutcomeRateLimited, Event: kanban.EventRateLimited, Exit: "rate_limited", Code: code,
			Error: fmt.Sprintf("pid %d exited with code 75: rate limit", pid),
		}
	case code == exitConfig:
		v := crashed("terminal_provider", fmt.Sprintf("pid %d %s", pid, configText))
		v.Code, v.TripNow, v.Sticky = code, true, true
		return v
	}
	if code == exitTimedOut {
		return Verdict{
			Outcome: kanban.OutcomeTimedOut, Event: kanban.EventTimedOut, Exit: "budget", Code: code, Count: true,
			Error: fmt.Sprintf("pid %d exited with code 124: its time or its steps were used up", pid),
		}
	}
	v := crashed("nonzero_exit", fmt.Sprintf("pid %d exited with code %d", pid, code))
	v.Code = code
	return v
}

func notStarted() Verdict {
	return Verdict{
		Outcome: kanban.OutcomeReclaimed, Event: kanban.EventReclaimed, Exit: string(worker.NotStarted),
		Error: "the dispatcher ended before it had started the worker",
	}
}

func crashed(kind, text string) Verdict {
	return Verdict{Outcome: kanban.OutcomeCrashed, Event: kanban.EventCrashed, Exit: kind, Error: text, Count: true}
}

func timedOut(ran, limit time.Duration) Verdict {
	return Verdict{
		Outcome: kanban.OutcomeTimedOut, Event: kanban.EventTimedOut, Exit: "deadline", Count: true,
		Error: fmt.Sprintf("elapsed %ds > limit %ds", int(ran.Seconds()), int(limit.Seconds())),
	}
}

// stopped: the reason for which we asked decides, whatever code the worker then gave. A reclaim after a silent
// claim counts, or a card whose worker always hangs would be reclaimed for ever.
func stopped(exit worker.Exit, cause Cause, limit time.Duration) Verdict {
	switch cause {
	case TimeUp:
		return timedOut(exit.Ran, limit)
	case NoSign:
		return Verdict{Outcome: kanban.OutcomeStale, Event: kanban.EventStale, Exit: "stopped", Error: "no heartbeat for too long"}
	case ClaimOver:
		return Verdict{Outcome: kanban.OutcomeReclaimed, Event: kanban.EventReclaimed, Exit: "stopped", Error: "claim ran out without a sign of life", Count: true}
	}
	return Verdict{Outcome: kanban.OutcomeReclaimed, Event: kanban.EventReclaimed, Exit: "stopped", Error: "the worker was asked to end"}
}
