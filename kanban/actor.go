package kanban

import (
	"fmt"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// Actor is who asks something of a board: a person or a program that acts for one (Run is 0), or the worker of one run.
// Each door (command line, HTTP, MCP) makes one of what it knows of its caller, never of what the caller says about itself.
type Actor struct {
	Name string // stands as author and in events
	Task string // a worker's own card
	Run  RunID  // a worker's run
}

// Worker reports whether it is the worker of a run.
func (a Actor) Worker() bool { return a.Run != 0 }

// Fence is the run by which the actor may write to a card, or nil: a person needs none, and a worker has one for its own
// card only.
func (a Actor) Fence(card string) *RunID {
	if !a.Worker() || a.Task != card {
		return nil
	}
	return &a.Run
}

// reach is how far a worker may go with a verb. What is not in the table is for people: it undoes, judges or ends other
// work, or it has no run by which an old worker could be told from the current one.
type reach int

const (
	toOwnCard reach = iota + 1 // the run fences it
	toAnyCard                  // adds something and takes nothing away
)

var workerReach = map[string]reach{
	"complete": toOwnCard, "block": toOwnCard, "schedule": toOwnCard, "heartbeat": toOwnCard,
	"request-review": toOwnCard, "request-changes": toOwnCard, "attach": toOwnCard, "attach-url": toOwnCard,
	"create": toAnyCard, "comment": toAnyCard, "link": toAnyCard,
}

// May answers nil if the actor may use a verb on a card, else a Denied problem. Verbs go by the names that the command line has
// for them; a person may use all.
func (a Actor) May(verb, card string) error {
	switch r := workerReach[verb]; {
	case !a.Worker(), r == toAnyCard, r == toOwnCard && (card == a.Task || mutation.On("worker-reaches-other-cards")):
		return nil
	case r == toOwnCard:
		return &problem.Error{
			Kind: problem.Denied, Thing: cardThing(card), What: fmt.Sprintf("is not this worker's: run %d works on %s", a.Run, cardThing(a.Task)),
			Fate: unchanged, Remedy: "a worker may comment on other cards, create and link cards, and no more", Err: mark{ErrDenied},
		}
	}
	thing := "verb " + verb
	if card != "" {
		thing += " on " + cardThing(card)
	}
	return &problem.Error{
		Kind: problem.Denied, Thing: thing, What: fmt.Sprintf("is for people, not for the worker of run %d", a.Run),
		Fate: unchanged, Remedy: "comment on the card, or block your own with what you need from a person", Err: mark{ErrDenied},
	}
}
