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
	_, all := d.running()
	s := Situation{
		Now: now, Dispatcher: d.outside, Lanes: d.o.Lanes, State: map[string]LaneState{}, DefaultAssignee: d.o.Config.DefaultAssignee,
		Limits: DefaultLimits(d.o.Config.RateLimitCooldown), InProgress: all, MaxInProgress: d.o.Config.MaxInProgress, Alive: map[string]string{},
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
	lanes, _ := d.running()
	state := LaneState{Running: lanes[lane.Name], Missing: missing(lane, d.o.Environ)}
	state.NoModel = lane.NeedsModel && d.o.Offline()
	state.Backoff = d.health[lane.Name].hold(lane.Name, state.Running, s.Now)
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
	out := Candidate{Board: slug, Task: c.Task.ID, Assignee: c.Task.Assignee, Review: c.Review, GuardedFor: c.GuardedFor}
	out.History = History{LastFailure: c.Task.LastFailureError, LastHandoff: epoch(c.Moved)}
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
