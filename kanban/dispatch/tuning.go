package dispatch

import (
	"slices"

	"gatewayd/config"
	"gatewayd/kanban/worker"
)

// Tuning is what may change while a dispatcher works: its limits and its lanes.
type Tuning struct {
	Kanban config.Kanban
	Lanes  *worker.Lanes
}

// Tune takes new settings and looks after all boards. It waits for the tick that is under way. Workers keep what they were started with;
// kanban.dispatch and kanban.interval are those of the start.
func (d *Dispatcher) Tune(t Tuning) {
	d.mu.Lock()
	t.Kanban.Dispatch, t.Kanban.Interval = d.tuned().Kanban.Dispatch, d.tuned().Kanban.Interval
	d.tuning.Store(&t)
	boards := slices.Clone(d.order)
	d.mu.Unlock()
	for _, slug := range boards {
		d.Wake(slug)
	}
}

// tuned is what counts now.
func (d *Dispatcher) tuned() *Tuning { return d.tuning.Load() }
