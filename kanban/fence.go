package kanban

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/procfs"
	"gatewayd/internal/sqlite"
)

// Fence is what a worker acts for: one run of one card. It names the run, it does not prove it: the board is asked each time.
type Fence struct {
	Board   Slug
	Task    string
	Run     RunID
	Started int64  // the run's started_at; 0 = not compared
	Lock    string // the claim's lock; "" = not compared
}

// As gives the same open board to the worker of a run. Each of its writes, whatever the verb and the card, first asks in its
// own transaction whether the run is still the card's current one, and is refused with ErrStaleRun when it is not. The
// board that is given shares the open file; closing either closes both.
func (b *Board) As(fence Fence) *Board {
	fenced := *b
	fenced.fence = &fence
	return &fenced
}

// CurrentRun gives the run that a fence names, or ErrStaleRun when another one, or none, has the card. It is how a process
// finds out whether it is the worker that its environment or its token says.
func (b *Board) CurrentRun(ctx context.Context, fence Fence) (Run, error) {
	var run Run
	err := b.read(ctx, func(c *sqlite.Conn) (err error) {
		run, err = fence.current(c)
		return err
	})
	return run, err
}

// Worker is who acts for a run. Its name is the run's lane, as the board knows it: never what a caller says of itself.
func (r Run) Worker() Actor {
	return Actor{Name: cmp.Or(r.Profile, r.TaskID), Task: r.TaskID, Run: r.ID}
}

const selectFencedRun = `SELECT ` + runColumns + ` FROM task_runs r WHERE r.id = ? AND r.task_id = ?`

// current gives the run while the card is running under it and nobody else has claimed it since.
func (f Fence) current(c *sqlite.Conn) (Run, error) {
	card, err := loadTask(c, f.Task)
	if err != nil {
		return Run{}, err
	}
	runs, err := collect(c, scanRunRow, selectFencedRun, int64(f.Run), f.Task)
	if err != nil {
		return Run{}, err
	}
	switch {
	case mutation.On("fence-is-not-asked"):
		return Run{ID: f.Run, TaskID: f.Task, Profile: card.Assignee}, nil
	case f.Run == 0, card.Status != StatusRunning, card.CurrentRunID != f.Run, len(runs) == 0:
		return Run{}, staleRun(f.Task, f.Run, card)
	case f.Started != 0 && f.Started != runs[0].StartedAt:
		return Run{}, foreignRun(f, fmt.Sprintf("was started at another time than this worker's run %d", f.Run))
	case f.Lock != "" && f.Lock != card.ClaimLock:
		return Run{}, foreignRun(f, fmt.Sprintf("is claimed by %s, and this worker was started by %s", quote(card.ClaimLock), quote(f.Lock)))
	}
	return runs[0], nil
}

// mayEnd decides who may put an end to a card. A caller that names a run must name the current one. A caller that names
// none is a person, or a program that lost its name, and must not complete a card under a live worker's feet.
func (t *txn) mayEnd(card Task, run *RunID, force bool, now time.Time) error {
	switch {
	case run != nil && (card.Status != StatusRunning || *run == 0 || *run != card.CurrentRunID):
		return staleRun(card.ID, *run, card)
	case run == nil && !force && card.Status == StatusRunning && workerLives(card, now):
		return conflict(card.ID, ErrLiveClaim, "is being worked on (run %d, %s)", card.CurrentRunID, card.ClaimLock)
	}
	return nil
}

// workerLives reports whether the card's worker must be taken for alive. On another machine only the claim tells. A card
// that was claimed by hand has no worker.
func workerLives(card Task, now time.Time) bool {
	switch {
	case card.WorkerPID == 0:
		return false
	case !HostLocal(card.ClaimLock):
		return card.ClaimExpires > now.Unix()
	}
	return processLives(card.WorkerPID, card.WorkerStarted)
}

// livesHere reports whether the card's worker is a living process of this machine.
func livesHere(card Task) bool {
	return card.WorkerPID != 0 && HostLocal(card.ClaimLock) && processLives(card.WorkerPID, card.WorkerStarted)
}

// processLives reports whether the process that a row calls by this pid and fingerprint runs. Old rows hold a bare start
// time or nothing; then as much is compared as there is.
func processLives(pid int, fingerprint string) bool {
	st, err := procfs.ReadStat(pid)
	if err != nil || st.State == 'Z' || st.State == 'X' {
		return false
	}
	if start, err := strconv.ParseUint(fingerprint, 10, 64); err == nil {
		return start == st.Start
	}
	return !strings.Contains(fingerprint, "|") || procfs.Fingerprint(pid) == fingerprint
}
