package kanban

import (
	"context"

	"gatewayd/internal/sqlite"
)

// Survey is all that a dispatcher's tick needs to know of a board, from one snapshot: one read transaction instead of
// three is most of what a tick over an unhurried board costs.
type Survey struct {
	Running    []Running
	Ready      []Candidate // as Ready gives them
	Promotable bool        // Promote would find something
}

// Survey reads it.
func (b *Board) Survey(ctx context.Context) (Survey, error) {
	var s Survey
	err := b.read(ctx, func(c *sqlite.Conn) (err error) {
		s = Survey{}
		if s.Running, err = collect(c, scanRunning, selectRunning); err != nil {
			return err
		}
		var id string
		if s.Promotable, err = c.Row(selectPromotable, nil, &id); err != nil {
			return err
		}
		s.Ready, err = candidates(c)
		return err
	})
	return s, err
}

func candidates(c *sqlite.Conn) ([]Candidate, error) {
	var list []Candidate
	for _, status := range []Status{StatusReady, StatusReview} {
		tasks, err := collect(c, scanTask, selectReady, string(status))
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			cand := Candidate{Task: t, Review: status == StatusReview}
			if err := cand.readPast(c); err != nil {
				return nil, err
			}
			list = append(list, cand)
		}
	}
	return list, nil
}
