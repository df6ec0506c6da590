package kanban

import (
	"context"
	"time"

	"gatewayd/internal/sqlite"
)

// Survey is all that a dispatcher's tick needs to know of a board, from one snapshot: one read transaction instead of
// three is most of what a tick over an unhurried board costs.
type Survey struct {
	Running    []Running
	Ready      []Candidate // as Ready gives them
	Promotable bool        // Promote would find something
	Stops      []Stop      // whom somebody wants ended, running or outliving their run
	Wake       int64       // when the earliest scheduled card is due, epoch seconds; 0 = never
	Pause      *Pause      // nil = cards may start
	Leaving    []Keeper    // keepers of runs that are over, whose end nobody has accounted for yet
}

// selectOccupied says which of the lists below can hold anything, from the status index alone. Most boards are finished
// work, and for them it is the only statement.
const selectOccupied = `SELECT EXISTS (SELECT 1 FROM tasks WHERE status = 'running'),
    EXISTS (SELECT 1 FROM tasks WHERE status = 'ready') OR EXISTS (SELECT 1 FROM tasks WHERE status = 'review'), EXISTS (SELECT 1 FROM tasks WHERE status = 'todo'),
    EXISTS (SELECT 1 FROM gw_stops), (SELECT MIN(CASE WHEN ` + movedAhead + ` THEN 1 ELSE due_at END) FROM gw_schedules g WHERE due_at > 0),
    EXISTS (SELECT 1 FROM gw_pause), EXISTS (SELECT 1 FROM gw_runs WHERE settled_at IS NULL)`

// Survey reads it.
func (b *Board) Survey(ctx context.Context) (Survey, error) {
	var s Survey
	err := b.peek(ctx, func(c *sqlite.Conn) (err error) {
		s = Survey{}
		var running, ready, todo, stops, paused, kept bool
		if _, err = c.Row(selectOccupied, []any{time.Now().Unix()}, &running, &ready, &todo, &stops, &s.Wake, &paused, &kept); err != nil {
			return err
		}
		if stops {
			if s.Stops, err = collect(c, scanStopRow, selectStops); err != nil {
				return err
			}
		}
		if paused {
			if s.Pause, err = readPause(c); err != nil {
				return err
			}
		}
		if kept {
			if s.Leaving, err = collect(c, scanKeeper, selectLeaving); err != nil {
				return err
			}
		}
		if running {
			if s.Running, err = collect(c, scanRunning, selectRunning); err != nil {
				return err
			}
		}
		if todo {
			var id string
			if s.Promotable, err = c.Row(selectPromotable, nil, &id); err != nil {
				return err
			}
		}
		if ready {
			s.Ready, err = candidates(c)
		}
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
