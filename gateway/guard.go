package gateway

import (
	"crypto/sha256"
	"fmt"
	"sync"

	"gatewayd/gateway/tool"
	"gatewayd/internal/problem"
)

// repeatsMost is how often one call may fail, or read the same, in one turn before the model is told that it goes in circles.
const repeatsMost = 5

// guard notices a turn that repeats a call without getting further. It is safe for concurrent use.
type guard struct {
	mu     sync.Mutex
	calls  map[string]*repeats
	halted string // why the turn should end, once a call was repeated too often
}

type repeats struct {
	failed int // in a row
	same   int // in a row, with the same result
	last   [sha256.Size]byte
}

// look takes a call's result into account and gives the warning that goes with it, or nothing.
func (g *guard) look(call planned, result tool.Result) string {
	if result.Interrupted {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls == nil {
		g.calls = map[string]*repeats{}
	}
	key := call.name + "\x00" + call.args
	r, ok := g.calls[key]
	if !ok {
		r = &repeats{}
		g.calls[key] = r
	}
	r.count(result, call.stored.Intent == intentNone)
	var what string
	switch {
	case r.failed >= repeatsMost:
		what = fmt.Sprintf("this very call of %s has failed %d times in this turn", call.name, r.failed)
	case r.same >= repeatsMost:
		what = fmt.Sprintf("this very call of %s has given the same result %d times in this turn", call.name, r.same)
	default:
		return ""
	}
	g.halted = what
	return "\n[warning: " + what + ". Repeating it will not help: do something else, or say what is in the way]"
}

// count: only a call that changes nothing can be said to make no progress by giving the same result.
func (r *repeats) count(result tool.Result, reads bool) {
	if result.Err {
		r.failed++
	} else {
		r.failed = 0
	}
	sum := sha256.Sum256([]byte(result.Content))
	switch {
	case !reads || result.Err:
		r.same = 0
	case sum == r.last:
		r.same++
	default:
		r.same = 1
	}
	r.last = sum
}

// stop gives the reason to end the turn, or nothing.
func (g *guard) stop() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.halted
}

func guardExit(what string) exit {
	return exit{
		reason: "guardrail_halt", finish: finishError, retryable: true,
		note: "[Ended: " + what + ", so the turn was going in circles. What was done so far is kept; send a message to go on.]",
		problem: &problem.Error{
			Kind: problem.Unavailable, Thing: "the turn", What: "went in circles: " + what, Fate: "its rows are stored",
			Remedy: "rephrase the task, or set agent.loop_hard_stop to false",
		},
	}
}
