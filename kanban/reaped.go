package kanban

import (
	"context"

	"gatewayd/internal/sqlite"
)

// WorkerReaped notes that a dispatcher ended the worker of a run that was over. kind is EventTerminalWorkerReaped or
// EventArchiveWorkerTermination; how says what it took.
func (b *Board) WorkerReaped(ctx context.Context, task string, run RunID, kind string, how map[string]any) error {
	return b.write(ctx, "note end of worker", func(t *txn) error {
		if _, err := loadTask(t.Conn, task); err != nil {
			return err
		}
		return t.event(task, run, kind, sortedPayload(how))
	})
}

// The newest 200 runs are a bound: nothing indexes the end of a run, and a board may hold a hundred thousand of them.
const selectClosedWorkers = `SELECT ` + runColumns + ` FROM task_runs r
WHERE r.id > (SELECT COALESCE(MAX(id), 0) - 200 FROM task_runs) AND r.ended_at IS NOT NULL AND r.worker_pid IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM gw_runs g WHERE g.run_id = r.id) ORDER BY r.id`

// ClosedWorkers gives, of the newest 200 runs, those that are over, have a pid and never had a keeper: another program
// started their workers, and may have left them behind.
func (b *Board) ClosedWorkers(ctx context.Context) ([]Run, error) {
	var runs []Run
	err := b.peek(ctx, func(c *sqlite.Conn) (err error) {
		runs, err = collect(c, scanRunRow, selectClosedWorkers)
		return err
	})
	return runs, err
}

const (
	registerTask = `UPDATE tasks SET worker_pid = ?, worker_started_at = ?` + whereCurrent
	registerRun  = `UPDATE task_runs SET worker_pid = ?, worker_started_at = ? WHERE id = ? AND ended_at IS NULL`
)

// Register is a worker's first word: which process it is. ErrStaleRun says that its run is not the card's any more, and
// that it must stop before it does anything.
func (b *Board) Register(ctx context.Context, task string, run RunID, pid int, fingerprint string) error {
	return b.write(ctx, "register worker", func(t *txn) error {
		if err := t.fenced(task, run, registerTask, pid, opt(fingerprint), task, int64(run)); err != nil {
			return err
		}
		if err := t.must("register worker", registerRun, pid, opt(fingerprint), int64(run)); err != nil {
			return err
		}
		p := payload{{"pid", pid}}
		if fingerprint != "" {
			p = append(p, field{"started_at", fingerprint})
		}
		return t.event(task, run, "worker_registered", p)
	})
}
