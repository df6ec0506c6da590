package kanban

// start says whether a change of status is a fresh start for the breaker.
type start bool

const (
	sameStart  start = false
	freshStart start = true
)

const (
	placeTask = `UPDATE tasks SET status = ?, claim_lock = NULL, claim_expires = NULL, worker_pid = NULL, worker_started_at = NULL,
    current_run_id = NULL, completed_at = CASE WHEN ? THEN completed_at END WHERE id = ?`
	freshenTask    = `UPDATE tasks SET consecutive_failures = 0, last_failure_error = NULL WHERE id = ?`
	deleteSchedule = `DELETE FROM gw_schedules WHERE task_id = ?`
)

// place puts a card that nobody runs any more in another status. A finished card that is opened again has no end, and
// one that is scheduled no longer has no time.
func (t *txn) place(card Task, to Status, s start) error {
	if err := t.must("place card", placeTask, string(to), to.Satisfied(), card.ID); err != nil {
		return err
	}
	if card.Status == StatusScheduled && to != StatusScheduled {
		if _, err := t.run("drop schedule", deleteSchedule, card.ID); err != nil {
			return err
		}
	}
	if s == sameStart {
		return nil
	}
	return t.must("place card", freshenTask, card.ID)
}

// abandon closes the open run of a card that was taken from it and has its worker ended.
func (t *txn) abandon(card Task, why Stop) error {
	if card.CurrentRunID == 0 {
		return nil
	}
	if err := t.withdrawStop(card.CurrentRunID); err != nil {
		return err
	}
	if _, err := t.run("close run", closeRun, OutcomeReclaimed, OutcomeReclaimed, t.now, nil, nil, opt(cut(why.Reason, maxError)), int64(card.CurrentRunID)); err != nil {
		return err
	}
	if _, err := t.run("close other runs", closeOtherRuns, t.now, card.ID); err != nil {
		return err
	}
	return t.endWorker(card, why)
}
