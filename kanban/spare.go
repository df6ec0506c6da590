package kanban

import (
	"context"

	"gatewayd/internal/sqlite"
)

// EventFailureSpared: a failure was taken back that a run had counted against its card.
const EventFailureSpared = "failure_spared"

const (
	// A run's failure still counts when nothing since has spared it or given the card a fresh start.
	selectCharge = `SELECT c.id FROM task_events c WHERE c.run_id = ?1 AND c.task_id = ?2 AND c.kind = 'crashed' AND NOT EXISTS (
    SELECT 1 FROM task_events f WHERE f.task_id = ?2 AND f.id > c.id AND (f.kind = 'failure_spared' AND f.run_id = ?1
        OR f.kind IN ('unblocked', 'assigned', 'edited', 'specified', 'status', 'promoted_manual', 'completed', 'review_requested',
            'changes_requested', 'review_reopened', 'descendant_invalidated')))
ORDER BY c.id DESC LIMIT 1`
	spareTask = `UPDATE tasks SET consecutive_failures = consecutive_failures - 1 WHERE id = ? AND consecutive_failures > 0`
	// The breaker's last word on a card, unless somebody blocked it since.
	selectTrip = `SELECT e.kind = 'gave_up' AND e.run_id IS ?2 AND json_extract(CASE WHEN json_valid(e.payload) THEN e.payload END, '$.sticky') IS NOT 1
FROM task_events e WHERE e.task_id = ?1 AND e.kind IN ('gave_up', 'blocked') ORDER BY e.id DESC LIMIT 1`
)

// Spare takes back the failure that a crashed run counted against its card, when it turns out later that the card was not
// to blame. If that failure tripped the breaker, the card goes on where it was claimed from. It reports whether there was
// anything to take back: a card with a fresh start since has nothing, and no failure is taken back twice.
func (b *Board) Spare(ctx context.Context, task string, run RunID, reason string) (bool, error) {
	done := false
	err := b.write(ctx, "spare card", func(t *txn) (err error) {
		done, err = t.spare(task, run, reason)
		return err
	})
	return done && (err == nil || Committed(err)), err
}

func (t *txn) spare(task string, run RunID, reason string) (bool, error) {
	card, err := loadTask(t.Conn, task)
	if err != nil {
		return false, err
	}
	var charge int64
	if charged, err := t.Row(selectCharge, []any{int64(run), task}, &charge); err != nil || !charged {
		return false, err
	}
	if n, err := t.run("spare card", spareTask, task); err != nil || n == 0 {
		return false, err
	}
	if err := t.event(task, run, EventFailureSpared, payload{{"reason", opt(clean(reason))}, {"failures", card.ConsecutiveFailures - 1}}); err != nil {
		return false, err
	}
	if card.Status != StatusBlocked {
		return true, nil
	}
	var tripped bool
	if _, err := t.Row(selectTrip, []any{task, int64(run)}, &tripped); err != nil || !tripped {
		return true, err
	}
	return true, t.resume(card)
}

// resume lets a card go on that the breaker stopped.
func (t *txn) resume(card Task) error {
	to, err := t.resumeStatus(card.ID)
	if err != nil {
		return err
	}
	if to, err = t.landing(card, Stop{}, to); err != nil {
		return err
	}
	if err := t.place(card, to, sameStart); err != nil {
		return err
	}
	return t.event(card.ID, 0, "promoted", payload{{"status", to}})
}

// The newest 200 runs are a bound, as for ClosedWorkers.
const selectRecentEnds = `SELECT ` + runColumns + ` FROM task_runs r
WHERE r.id > (SELECT COALESCE(MAX(id), 0) - 200 FROM task_runs) AND r.ended_at >= ? ORDER BY r.ended_at, r.id`

// RecentEnds gives, of the newest 200 runs, those that ended since a moment in epoch seconds, in the order of their ends.
func (b *Board) RecentEnds(ctx context.Context, since int64) ([]Run, error) {
	var runs []Run
	err := b.peek(ctx, func(c *sqlite.Conn) (err error) {
		runs, err = collect(c, scanRunRow, selectRecentEnds, since)
		return err
	})
	return runs, err
}
