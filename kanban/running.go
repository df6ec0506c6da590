package kanban

import (
	"context"
	"time"

	"gatewayd/internal/sqlite"
)

// Running is a card that somebody works on, and what is known of its worker.
type Running struct {
	Task   Task
	Run    Run    // zero if the card has none: damage, see Reconcile
	Source Status // where the card was claimed from
	Keeper string // the keeper's id, "" if none was recorded

	Dispatched bool  // a dispatcher of ours claimed it to start a worker at once; a person's claim may have none for hours
	Stop       *Stop // somebody wants it ended; nil = nobody
}

// Started is when the attempt began, in epoch seconds; 0 = unknown. A retry has its own beginning.
func (r Running) Started() int64 {
	if r.Run.StartedAt != 0 {
		return r.Run.StartedAt
	}
	return r.Task.StartedAt
}

const selectRunning = `SELECT ` + taskColumns + `, ` + runColumns + `, g.keeper_id,
    (SELECT json_extract(CASE WHEN json_valid(e.payload) THEN e.payload END, '$.source_status') FROM task_events e
     WHERE e.run_id = t.current_run_id AND e.kind = 'claimed' ORDER BY e.id LIMIT 1),
    (SELECT json_extract(CASE WHEN json_valid(e.payload) THEN e.payload END, '$.dispatcher') FROM task_events e
     WHERE e.run_id = t.current_run_id AND e.kind = 'claimed' ORDER BY e.id LIMIT 1), ` + stopColumns + `
FROM tasks t LEFT JOIN task_runs r ON r.id = t.current_run_id LEFT JOIN gw_runs g ON g.run_id = t.current_run_id
    LEFT JOIN gw_stops s ON s.run_id = t.current_run_id
WHERE t.status = 'running' ORDER BY t.id`

const runWidth = 17

// Running lists the cards that are being worked on.
func (b *Board) Running(ctx context.Context) ([]Running, error) {
	var list []Running
	err := b.peek(ctx, func(c *sqlite.Conn) (err error) {
		list, err = collect(c, scanRunning, selectRunning)
		return err
	})
	return list, err
}

func scanRunning(row *sqlite.Row) Running {
	r := Running{Task: scanTask(row), Source: StatusReady, Keeper: row.Text(taskWidth + runWidth)}
	if !row.Null(taskWidth) {
		r.Run = scanRun(row, taskWidth)
	}
	if row.Text(taskWidth+runWidth+1) == string(StatusReview) {
		r.Source = StatusReview
	}
	r.Dispatched = row.Text(taskWidth+runWidth+2) == "1"
	if at := taskWidth + runWidth + 3; !row.Null(at) {
		r.Stop = new(scanStop(row, at))
	}
	return r
}

// Candidate is a card that may be claimed, and what the guards before a claim need of its past.
type Candidate struct {
	Task       Task
	Review     bool   // it waits for a reviewer
	Closed     []Run  // closed runs, newest first, at most maxClosed
	Moved      int64  // newest status, promoted, unblocked or reclaimed event, epoch seconds; 0 = none
	GuardedFor string // reason of the newest respawn_guarded event, if nothing has happened since
}

// maxClosed covers the longest row of runs that a guard looks back on.
const maxClosed = 25

const (
	selectReady  = `SELECT ` + taskColumns + ` FROM tasks t WHERE t.status = ? AND t.claim_lock IS NULL ORDER BY t.priority DESC, t.created_at, t.id`
	selectClosed = `SELECT ` + runColumns + ` FROM task_runs r WHERE r.task_id = ? AND r.ended_at IS NOT NULL ORDER BY r.id DESC LIMIT ?`
	selectMoved  = `SELECT MAX(e.created_at) FROM task_events e WHERE e.task_id = ? AND e.kind IN ('status', 'promoted', 'unblocked', 'reclaimed')`
	selectNewest = `SELECT CASE WHEN e.kind = 'respawn_guarded' THEN json_extract(CASE WHEN json_valid(e.payload) THEN e.payload END, '$.reason') END
FROM task_events e WHERE e.task_id = ? ORDER BY e.id DESC LIMIT 1`
)

// Ready lists the cards that may be claimed, in the order in which they should be: ready ones first, then those for
// review, each by priority and age. Cards that never ran cost one row; the past is read only where there is one.
func (b *Board) Ready(ctx context.Context) ([]Candidate, error) {
	var list []Candidate
	err := b.peek(ctx, func(c *sqlite.Conn) (err error) {
		list, err = candidates(c)
		return err
	})
	return list, err
}

func (c *Candidate) readPast(conn *sqlite.Conn) (err error) {
	if c.Task.StartedAt == 0 && c.Task.LastFailureError == "" {
		return nil
	}
	if c.Closed, err = collect(conn, scanRunRow, selectClosed, c.Task.ID, maxClosed); err != nil {
		return err
	}
	if _, err = conn.Row(selectMoved, []any{c.Task.ID}, &c.Moved); err != nil {
		return err
	}
	_, err = conn.Row(selectNewest, []any{c.Task.ID}, &c.GuardedFor)
	return err
}

const selectDue = `SELECT MIN(due) FROM (
    SELECT t.claim_expires AS due FROM tasks t WHERE t.status = 'running' AND t.claim_expires IS NOT NULL
    UNION ALL SELECT r.started_at + r.max_runtime_seconds FROM tasks t JOIN task_runs r ON r.id = t.current_run_id
        WHERE t.status = 'running' AND r.max_runtime_seconds > 0
    UNION ALL SELECT g.due_at FROM gw_schedules g JOIN tasks t ON t.id = g.task_id WHERE t.status = 'scheduled' AND g.due_at > 0)`

// Due is the earliest moment at which time alone changes something here: a claim expires, an attempt has run too long, or
// a scheduled card wakes.
// The zero time means never.
func (b *Board) Due(ctx context.Context) (time.Time, error) {
	var due int64
	err := b.peek(ctx, func(c *sqlite.Conn) error {
		_, err := c.Row(selectDue, nil, &due)
		return err
	})
	if err != nil || due == 0 {
		return time.Time{}, err
	}
	return time.Unix(due, 0), nil
}

// Guarded notes that a ready card was held back, once per reason: a line per tick would bury the history. It reports
// whether it wrote one.
func (b *Board) Guarded(ctx context.Context, task, kind, reason string) (bool, error) {
	wrote := false
	err := b.write(ctx, "note guard", func(t *txn) error {
		var last string
		wrote = false
		_, err := t.Row(selectLastOf, []any{task, kind}, &last)
		if err != nil || last == reason {
			return err
		}
		wrote = true
		return t.event(task, 0, kind, payload{{"reason", reason}})
	})
	return wrote && (err == nil || Committed(err)), err
}

// The reason of the newest line, if that is of this kind.
const selectLastOf = `SELECT CASE WHEN e.kind = ?2 THEN COALESCE(json_extract(CASE WHEN json_valid(e.payload) THEN e.payload END, '$.reason'), '') ELSE '' END
FROM task_events e WHERE e.task_id = ?1 ORDER BY e.id DESC LIMIT 1`

const setWorkspace = `UPDATE tasks SET workspace_path = ?, branch_name = COALESCE(?, branch_name)` + whereCurrent

// SetWorkspace records where the worker of a run finds its files.
func (b *Board) SetWorkspace(ctx context.Context, task string, run RunID, path, branch string) error {
	return b.write(ctx, "record workspace", func(t *txn) error {
		return t.fenced(task, run, setWorkspace, opt(path), opt(branch), task, int64(run))
	})
}
