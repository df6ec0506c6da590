package kanban

import (
	"context"

	"gatewayd/internal/sqlite"
)

const (
	selectLonelyFiles = `SELECT DISTINCT a.stored_path FROM task_attachments a WHERE a.task_id = ?1
AND NOT EXISTS (SELECT 1 FROM task_attachments o WHERE o.stored_path = a.stored_path AND o.task_id <> ?1) ORDER BY 1`
	deleteTask       = `DELETE FROM tasks WHERE id = ?`
	deleteTaskLinks  = `DELETE FROM task_links WHERE parent_id = ?1 OR child_id = ?1`
	deleteSettledRun = `DELETE FROM gw_runs WHERE task_id = ? AND settled_at IS NOT NULL`
	selectLastWorker = `SELECT r.worker_pid, r.worker_started_at, r.claim_lock FROM task_runs r WHERE r.task_id = ? AND r.worker_pid IS NOT NULL ORDER BY r.id DESC LIMIT 10`
)

// cardTables hold rows of a card by its task_id, beside tasks, links and gw_runs.
func cardTables() []table {
	return []table{commentsTable, eventsTable, runsTable, attachmentsTable, subsTable, gwSchedulesTable, gwStopsTable}
}

// Purge removes an archived card for good, with all that hangs on it: its scratch workspace, and the stored files that no
// other card has, which it names. One event `deleted` stays in the board's history.
func (b *Board) Purge(ctx context.Context, task string) (gone []string, err error) {
	return b.remove(ctx, task, func(card Task) error {
		if card.Status != StatusArchived {
			return conflict(task, ErrConflict, "is %s: only an archived card is purged", card.Status)
		}
		return nil
	})
}

// Delete is Purge for a card in any status. One whose worker lives is refused.
func (b *Board) Delete(ctx context.Context, task string) (gone []string, err error) {
	return b.remove(ctx, task, func(Task) error { return nil })
}

func (b *Board) remove(ctx context.Context, task string, may func(Task) error) (gone []string, err error) {
	err = b.write(ctx, "delete card", func(t *txn) error {
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return err
		}
		if err := may(card); err != nil {
			return err
		}
		if err := t.workerless(card); err != nil {
			return err
		}
		gone, err = t.remove(card)
		return err
	})
	if err != nil && !Committed(err) {
		return nil, err
	}
	if left := b.vacate(task, gone); left != nil {
		b.log.Warn("what a deleted card left on disk stays", "task", task, "error", left)
	}
	return gone, err
}

// workerless refuses a card while a worker of any of its newest runs lives: it would go on in a place that nobody knows.
func (t *txn) workerless(card Task) error {
	if card.Status == StatusRunning && card.WorkerPID != 0 && !HostLocal(card.ClaimLock) && card.ClaimExpires > t.now {
		return conflict(card.ID, ErrLiveClaim, "is claimed on another machine (%s)", card.ClaimLock)
	}
	pids, err := collect(t.Conn, func(row *sqlite.Row) Task {
		c := &cursor{row: row}
		return Task{WorkerPID: int(c.num()), WorkerStarted: c.text(), ClaimLock: c.text()}
	}, selectLastWorker, card.ID)
	if err != nil {
		return err
	}
	for _, w := range pids {
		if livesHere(w) {
			return conflict(card.ID, ErrLiveClaim, "has a living worker (pid %d); reclaim the card and wait for its end", w.WorkerPID)
		}
	}
	return nil
}

func (t *txn) remove(card Task) (gone []string, err error) {
	if gone, err = texts(t.Conn, selectLonelyFiles, card.ID); err != nil {
		return nil, err
	}
	children, err := texts(t.Conn, selectChildren, card.ID)
	if err != nil {
		return nil, err
	}
	for _, sql := range []string{deleteTask, deleteTaskLinks, deleteSettledRun} {
		if _, err := t.run("delete card", sql, card.ID); err != nil {
			return nil, err
		}
	}
	for _, of := range cardTables() {
		if _, err := t.run("delete card", `DELETE FROM `+of.name+` WHERE task_id = ?`, card.ID); err != nil {
			return nil, err
		}
	}
	p := payload{{"title", cut(card.Title, 200)}, {"status", card.Status}}
	if card.WorkspaceKind == WorkspaceWorktree {
		p = p.say("worktree", card.WorkspacePath).say("branch", card.BranchName) // it goes later, and by this alone it is found
	}
	if err := t.event(card.ID, 0, "deleted", p); err != nil {
		return nil, err
	}
	for _, child := range children {
		if err := t.promoteIfFree(child); err != nil {
			return nil, err
		}
	}
	return gone, nil
}
