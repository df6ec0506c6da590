package kanban

import (
	"context"
	"fmt"
)

// End says how an attempt ended that brought no verdict of its own.
type End struct {
	Task      string
	Run       RunID
	Outcome   string         // of the run: crashed, timed_out, stale, spawn_failed, rate_limited, reclaimed
	EventKind string         // "" = the outcome; protocol_violation has its own streak
	Payload   map[string]any // of the event
	Error     string         // at most 500 characters are kept
	Count     bool           // it counts against the breaker
	Limit     int            // the breaker's limit where the card has none; 0 = DefaultFailureLimit
	Sticky    bool           // a trip of the breaker stays until a person unblocks the card
	TripNow   bool           // trip whatever the count is
	Reset     bool           // a fresh start for the breaker: an operator's reclaim
	To        Status         // "" = where the card was claimed from
	Manual    map[string]any // how the worker of a stop request ended, for the reclaimed event
}

// Ended says what became of the card.
type Ended struct {
	Status   Status
	Failures int  // counted failures in a row, this one included
	Streak   int  // protocol violations in a row, this one included
	GaveUp   bool // the breaker tripped: the card is blocked
}

const (
	maxError = 500

	releaseTask = `UPDATE tasks SET status = ?, claim_lock = NULL, claim_expires = NULL, worker_pid = NULL, worker_started_at = NULL,
    current_run_id = NULL, consecutive_failures = ?, last_failure_error = CASE WHEN ? THEN ? ELSE last_failure_error END` + whereCurrent
	closeRun = `UPDATE task_runs SET status = ?, outcome = ?, ended_at = ?, summary = COALESCE(?, summary), metadata = COALESCE(?, metadata),
    error = COALESCE(?, error) WHERE id = ? AND ended_at IS NULL`
	closeOtherRuns = `UPDATE task_runs SET status = 'reclaimed', outcome = 'reclaimed', ended_at = ?, error = 'invariant recovery: another run was current'
WHERE task_id = ? AND ended_at IS NULL`

	// The newest runs of a card, the current one first: was it a protocol violation, and may it be passed over?
	selectStreak = `SELECT r.outcome IS 'rate_limited', EXISTS (SELECT 1 FROM task_events e WHERE e.run_id = r.id AND e.kind = 'protocol_violation')
FROM task_runs r WHERE r.task_id = ? AND r.ended_at IS NOT NULL ORDER BY r.id DESC LIMIT 50`
)

// EndRun closes a run and decides where its card goes: back to where it was claimed from, or to blocked when the breaker
// trips. It is a compare and swap on the run; ErrStaleRun says that the card has moved on and nothing was done. Where
// somebody asked for the run to be stopped, the end is what they asked for, however the worker came to it: nothing counts
// against the card, and it goes where they wanted it.
func (b *Board) EndRun(ctx context.Context, end End) (Ended, error) {
	var ended Ended
	err := b.write(ctx, "end run", func(t *txn) (err error) {
		ended, err = t.endRun(end)
		return err
	})
	if err != nil && !Committed(err) {
		return Ended{}, err
	}
	return ended, err
}

func (t *txn) endRun(end End) (Ended, error) {
	card, err := loadTask(t.Conn, end.Task)
	if err != nil {
		return Ended{}, err
	}
	if card.Status != StatusRunning || card.CurrentRunID != end.Run || end.Run == 0 {
		return Ended{}, staleRun(end.Task, end.Run, card)
	}
	stop, wanted, err := t.stopOf(end.Run)
	if err != nil {
		return Ended{}, err
	}
	if wanted || end.Manual != nil {
		to, err := t.fulfil(card, stop, end.Manual)
		return Ended{Status: to}, err
	}
	if end.EventKind == "" {
		end.EventKind = end.Outcome
	}
	end.Error = cut(clean(end.Error), maxError)
	v, err := t.judge(card, end)
	if err != nil {
		return Ended{}, err
	}
	if err := t.release(card, end, v); err != nil {
		return Ended{}, err
	}
	return v.Ended, t.endEvents(card, end, v)
}

// verdict is what the breaker says about an end.
type verdict struct {
	Ended
	back   Status // where the card would go
	limit  int64
	source string // "task" or "dispatcher": whose limit it is
	sticky bool
}

// judge counts. A protocol violation does not count as a failure: it has a streak of its own, over which rate-limited
// runs are passed over.
func (t *txn) judge(card Task, end End) (verdict, error) {
	v := verdict{back: end.To, sticky: end.Sticky}
	v.Failures = int(card.ConsecutiveFailures)
	if end.Reset {
		v.Failures = 0
	}
	v.limit, v.source = limitOf(card, end.Limit)
	trip := end.TripNow
	switch {
	case end.EventKind == EventProtocolViolation:
		streak, err := t.streak(card.ID)
		if err != nil {
			return v, err
		}
		if v.limit = ProtocolStreak; card.MaxRetries != nil {
			v.limit = *card.MaxRetries
		}
		v.Streak = streak + 1
		if int64(v.Streak) >= v.limit {
			trip, v.sticky = true, true
		}
	case end.Count:
		v.Failures++
		trip = trip || int64(v.Failures) >= v.limit
	}
	if v.back == "" {
		var err error
		if v.back, err = sourceStatus(t.Conn, end.Run); err != nil {
			return v, err
		}
	}
	v.Status, v.GaveUp = v.back, trip
	if trip {
		v.Status = StatusBlocked
	}
	return v, nil
}

func limitOf(card Task, dispatcher int) (limit int64, source string) {
	switch {
	case card.MaxRetries != nil:
		return *card.MaxRetries, "task"
	case dispatcher > 0:
		return int64(dispatcher), "dispatcher"
	}
	return DefaultFailureLimit, "dispatcher"
}

// streak counts the protocol violations that the newest closed runs of a card end with.
func (t *txn) streak(task string) (n int, err error) {
	for row, err := range t.Query(selectStreak, task) {
		if err != nil {
			return 0, err
		}
		switch {
		case row.Bool(1):
			n++
		case !row.Bool(0):
			return n, nil
		}
	}
	return n, nil
}

func (t *txn) release(card Task, end End, v verdict) error {
	outcome := end.Outcome
	if v.GaveUp && outcome == OutcomeSpawnFailed {
		outcome = OutcomeGaveUp // a spawn that failed for the last time leaves no run of its own kind
	}
	blamed := end.Count || v.GaveUp || end.EventKind == EventProtocolViolation || end.Outcome == OutcomeRateLimited || end.Reset
	failure := opt(end.Error)
	if end.Reset {
		failure = nil
	}
	if err := t.must("release card", releaseTask, string(v.Status), v.Failures, blamed, failure, card.ID, int64(end.Run)); err != nil {
		return err
	}
	var metadata *string
	if end.EventKind == EventProtocolViolation {
		metadata = new(`{"protocol_violation": true}`)
	}
	if _, err := t.run("close run", closeRun, outcome, outcome, t.now, nil, metadata, opt(end.Error), int64(end.Run)); err != nil {
		return err
	}
	return t.afterRun(card.ID, end.Run)
}

// afterRun closes what damage left open beside the run, and settles its keeper and the request to stop it.
func (t *txn) afterRun(task string, run RunID) error {
	if err := t.withdrawStop(run); err != nil {
		return err
	}
	if _, err := t.run("close other runs", closeOtherRuns, t.now, task); err != nil {
		return err
	}
	_, err := t.run("settle run", settleRun, t.now, int64(run))
	return err
}

func (t *txn) endEvents(card Task, end End, v verdict) error {
	p := sortedPayload(end.Payload)
	if end.Error != "" && p.find("error") < 0 {
		p = append(p, field{"error", end.Error})
	}
	if end.Count && end.Outcome == OutcomeSpawnFailed {
		p = p.with(map[string]any{"failures": v.Failures})
	}
	if v.back == StatusReview {
		p = p.with(map[string]any{"retry_status": StatusReview})
	}
	if !v.GaveUp || end.Outcome != OutcomeSpawnFailed {
		if err := t.event(card.ID, end.Run, end.EventKind, p); err != nil {
			return fmt.Errorf("end run: %w", err)
		}
	}
	if !v.GaveUp {
		return nil
	}
	return t.event(card.ID, end.Run, EventGaveUp, gaveUpPayload(card, end, v))
}

func gaveUpPayload(card Task, end End, v verdict) payload {
	failures := v.Failures
	if end.EventKind == EventProtocolViolation {
		failures = v.Streak
	}
	p := payload{
		{"failures", failures},
		{"effective_limit", v.limit},
		{"limit_source", v.source},
		{"error", opt(end.Error)},
		{"trigger_outcome", end.Outcome},
	}
	if v.back == StatusReview {
		p = append(p, field{"retry_status", StatusReview})
	}
	if v.sticky {
		p = append(p, field{"sticky", true})
	}
	if card.WorkerPID != 0 {
		p = append(p, field{"pid", card.WorkerPID})
	}
	return append(p, field{"claimer", opt(card.ClaimLock)})
}

const (
	reconcileTask = `UPDATE tasks SET status = ?, claim_lock = NULL, claim_expires = NULL, worker_pid = NULL, worker_started_at = NULL,
    current_run_id = NULL WHERE id = ? AND status = 'running' AND (claim_lock IS NULL OR claim_expires IS NULL)`
)

// Reconcile frees a running card whose claim is only half there, as rows edited by hand or left by older programs are.
// The caller has made sure that its pid, if it has one, is dead. It reports whether there was anything to free.
func (b *Board) Reconcile(ctx context.Context, task string) (bool, error) {
	done := false
	err := b.write(ctx, "reconcile card", func(t *txn) error {
		done = false
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return err
		}
		back, err := sourceStatus(t.Conn, card.CurrentRunID)
		if err != nil {
			return err
		}
		n, err := t.run("reconcile card", reconcileTask, string(back), task)
		if err != nil || n == 0 {
			return err
		}
		done = true
		if err := t.afterRun(task, card.CurrentRunID); err != nil {
			return err
		}
		if _, err := t.comment(task, "gatewayd", "This card was running without a complete claim and without a live worker. It was freed."); err != nil {
			return err
		}
		return t.event(task, card.CurrentRunID, "reconciled", payload{
			{"prev_lock", opt(card.ClaimLock)}, {"prev_pid", opt(int64(card.WorkerPID))}, {"status", back},
		})
	})
	return done && (err == nil || Committed(err)), err
}
