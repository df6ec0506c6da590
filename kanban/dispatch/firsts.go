package dispatch

import (
	"context"

	"gatewayd/kanban"
)

// Firsts gives, for each of the named cards, what Why puts first. It is for people who look at a whole board.
func (d *Dispatcher) Firsts(ctx context.Context, slug kanban.Slug, tasks []string) (map[string]Hold, error) {
	firsts := make(map[string]Hold, len(tasks))
	for _, task := range tasks {
		why, err := d.Why(ctx, slug, task)
		if err != nil {
			return firsts, err
		}
		if len(why.Holds) > 0 {
			firsts[task] = why.Holds[0]
		}
	}
	return firsts, nil
}
