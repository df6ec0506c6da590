package kanban

import "gatewayd/internal/problem"

// notYet answers for a verb whose signature is agreed and whose rule is not here yet.
func notYet(task, verb string) error {
	return &problem.Error{Kind: problem.Unavailable, Thing: cardThing(task), What: "cannot be " + verb + " yet", Fate: unchanged}
}
