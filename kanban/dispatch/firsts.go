package dispatch

import (
	"context"
	"maps"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/kanban"
)

// asker explains cards of one board from one look at the dispatcher.
type asker struct {
	d      *Dispatcher
	handle *kanban.Board
	s      Situation
	held   map[string]Hold // of the last tick
}

// asker looks. It reports false where this dispatcher does not serve the board.
func (d *Dispatcher) asker(slug kanban.Slug) (*asker, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := &asker{d: d, s: d.situation(time.Now())}
	b := d.boards[slug]
	if b == nil || b.handle == nil {
		return a, false
	}
	a.handle, a.held, a.s.Board = b.handle, maps.Clone(b.holds), b.outside
	return a, true
}

// why explains one card.
func (a *asker) why(ctx context.Context, task string) (Why, error) {
	facts, err := Facts(ctx, a.handle, task)
	if err != nil {
		return Why{}, err
	}
	a.d.mu.Lock()
	a.d.fill(&a.s, facts.Candidate)
	a.d.mu.Unlock()
	why := Explain(facts, a.s)
	if len(why.Holds) == 0 {
		return why, nil
	}
	first := &why.Holds[0]
	if held, known := a.held[task]; known && first.Reason == held.Reason {
		first.Since = held.Since
	}
	if first.Reason == NextTick {
		first.Until = a.d.Status().NextTick
	}
	return why, nil
}

// Firsts gives, for each of the named cards, what Why puts first. It is for people who look at a whole board: the dispatcher is looked
// at once, and a card that went meanwhile is left out.
func (d *Dispatcher) Firsts(ctx context.Context, slug kanban.Slug, tasks []string) (map[string]Hold, error) {
	explain := func(ctx context.Context, task string) (Why, error) { return d.Why(ctx, slug, task) }
	if ask, served := d.asker(slug); served {
		explain = ask.why
	}
	firsts := make(map[string]Hold, len(tasks))
	for _, task := range tasks {
		why, err := explain(ctx, task)
		if problem.Is(err, problem.NotFound) {
			continue
		}
		if err != nil {
			return firsts, err
		}
		if len(why.Holds) > 0 {
			firsts[task] = why.Holds[0]
		}
	}
	return firsts, nil
}
