package dispatch

import (
	"context"

	"gatewayd/internal/problem"
)

// Now does a full tick at once for a person who asks, and waits until the workers that it decided on run. It takes the
// lead where nobody has it. A dispatcher that does not dispatch refuses, with the reason that `why` gives.
func (d *Dispatcher) Now(ctx context.Context) (Report, error) {
	if !d.tuned().Kanban.Dispatch {
		return Report{}, errStands("is switched off (kanban.dispatch is false)", "set kanban.dispatch to true")
	}
	if !d.lead() {
		hold := d.stands()
		return Report{}, errStands("stands still: "+hold.Detail, hold.Remedy)
	}
	return d.Tick(ctx)
}

func (d *Dispatcher) stands() Hold {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.outside == nil {
		return Hold{}
	}
	return *d.outside
}

func errStands(what, remedy string) error {
	return &problem.Error{Kind: problem.Conflict, Thing: "the dispatcher of this daemon", What: what, Fate: "nothing was started", Remedy: remedy}
}
