package dispatch

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gatewayd/config"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

// situation is what the gates look at beside the card. Lanes are filled in as cards ask for them, because looking
// for programs costs a few system calls.
func (d *Dispatcher) situation(now time.Time) Situation {
	c := d.running()
	s := Situation{
		Now: now, Dispatcher: d.outside, Lanes: d.tuned().Lanes, State: map[string]LaneState{}, DefaultAssignee: d.tuned().Kanban.DefaultAssignee,
		Limits: DefaultLimits(d.tuned().Kanban.RateLimitCooldown), InProgress: c.all, MaxInProgress: d.tuned().Kanban.MaxInProgress, Alive: map[string]string{},
		Running: c.lanes, Reviewers: c.reviewers, Boards: map[kanban.Slug]BoardState{}, Pools: d.tuned().Kanban.Pools, ReviewOff: !d.tuned().Kanban.ReviewDispatch,
		Memory: d.mem.holds(now),
	}
	for slug, b := range d.boards {
		s.Boards[slug] = BoardState{Running: c.boards[slug], Most: b.most, Pause: b.pause}
		for _, l := range b.leaving {
			s.Alive[aliveKey(slug, l.task)] = l.name()
		}
	}
	for _, w := range d.workers {
		if w.exit == nil {
			s.Alive[aliveKey(w.board, w.task)] = w.id
		}
	}
	return s
}

func aliveKey(board kanban.Slug, task string) string { return string(board) + "/" + task }

// fill looks at the lane that the card asks for.
func (d *Dispatcher) fill(s *Situation, c Candidate) {
	lane, unfit := s.lane(c)
	if unfit != nil {
		return
	}
	if _, known := s.State[lane.Name]; known {
		return
	}
	state := LaneState{Missing: missing(lane, d.o.Environ)}
	state.NoModel = lane.NeedsModel && d.o.Offline()
	state.Backoff = d.health[lane.Name].hold(lane.Name, s.Running[lane.Name], s.Now)
	s.State[lane.Name] = state
}

func missing(lane worker.Lane, environ config.Environ) *Hold {
	program := lane.MissingProgram(environ)
	if program == "" {
		return nil
	}
	return &Hold{
		Reason: ProgramMissing, Detail: fmt.Sprintf("lane %s: program %s %s", lane.Name, program, lane.MissingWhat(program)),
		Remedy: lane.MissingRemedy(program),
	}
}

func candidateOf(slug kanban.Slug, c kanban.Candidate) Candidate {
	out := Candidate{Board: slug, Task: c.Task.ID, Assignee: c.Task.Assignee, Review: c.Review, Priority: c.Task.Priority, GuardedFor: c.GuardedFor}
	out.History = History{LastFailure: c.Task.LastFailureError, LastHandoff: epoch(c.Moved), Review: c.Review}
	for _, r := range c.Closed {
		out.History.Attempts = append(out.History.Attempts, Attempt{Outcome: r.Outcome, Error: r.Error, Ended: epoch(r.EndedAt)})
	}
	return out
}

// listing notices that boards came or went without listing them: the directory's own modification time tells. For
// a while after a change it keeps saying so, because a new board's directory is there before its files are.
type listing struct {
	known bool
	mtime time.Time
}

const listingSettles = 2 * time.Second

func (l *listing) changed(root string) bool {
	info, err := os.Stat(filepath.Join(root, "kanban", "boards"))
	var mtime time.Time
	if err == nil {
		mtime = info.ModTime()
	}
	if l.known && mtime.Equal(l.mtime) && time.Since(mtime) > listingSettles {
		return false
	}
	l.known, l.mtime = true, mtime
	return true
}

// peek is changed without taking note, for the poll between ticks.
func (l *listing) peek(root string) bool {
	copied := *l
	return copied.changed(root)
}
