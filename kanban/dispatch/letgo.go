package dispatch

import "gatewayd/kanban"

// LetGo gives back what is held of a board that is about to be archived or deleted. Until TakeBack nothing opens it again here,
// and Disabled keeps everybody else in this process from it. It waits for a tick that is under way. No card of the board may
// be running, so the caller holds the lock of its ticks.
func (d *Dispatcher) LetGo(slug kanban.Slug) {
	d.going.Store(slug, d.o.Root.DBPath(slug))
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.boards[slug]; b != nil {
		b.close()
	}
}

// TakeBack ends LetGo: a board that is still there is served again.
func (d *Dispatcher) TakeBack(slug kanban.Slug) {
	if _, gone := d.going.LoadAndDelete(slug); gone {
		d.Wake(slug)
	}
}
