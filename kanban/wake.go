package kanban

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/sqlite"
)

const (
	selectDueTimers = `SELECT ` + timerColumns + ` FROM gw_schedules g WHERE g.due_at > 0 AND (g.due_at <= ?1 OR ` + movedAhead + `) ORDER BY g.due_at, g.task_id`
	selectDueTimer  = `SELECT ` + timerColumns + ` FROM gw_schedules g WHERE g.task_id = ? AND g.due_at = ?`
	selectNextTimer = `SELECT MIN(due_at) FROM gw_schedules WHERE due_at > 0`
	fireTimer       = `UPDATE gw_schedules SET moved_at = ?, due_at = ?, last_fired_at = ?, last_copy = ?, missed = ? WHERE task_id = ?`
	selectCopyOf    = `SELECT 1 FROM tasks WHERE idempotency_key = ?`

	// A rule was moved on at a time that is still to come: the clock was ahead and was set back, and what the rule waits for
	// may be years away. Corrections of a few seconds do not count.
	movedAhead = `g.rule IS NOT NULL AND g.moved_at > ?1 + 300`

	// Another program may have unblocked the card and parked it again: then the time is not that of this parking.
	selectMovedSince = `SELECT 1 FROM task_events WHERE task_id = ? AND id > ? AND kind IN ('scheduled', 'unblocked', 'status', 'claimed', 'archived',
    'completed', 'promoted', 'promoted_manual', 'review_reopened') LIMIT 1`
	copyAttachments = `INSERT INTO task_attachments (task_id, filename, stored_path, content_type, size, uploaded_by, created_at)
SELECT ?, filename, stored_path, content_type, size, uploaded_by, ? FROM task_attachments WHERE task_id = ? ORDER BY id`
	copyLabels   = `UPDATE tasks SET workflow_template_id = ?, current_step_key = ? WHERE id = ?`
	selectStatus = `SELECT status FROM tasks WHERE id = ?`

	maxMissed = 100 // how many of the times that passed are counted: a rule of each minute has half a million a year
)

// WakeDue wakes every card whose time has come and names what may go on: the card itself, or the copy that its rule made.
// Each is one transaction that also moves the time on, so that it happens once, whoever else does the same and wherever
// one of them is killed. next is the earliest time still to come; the zero time means never. What went wrong with one rule
// is in its card's history and holds up no other.
func (b *Board) WakeDue(ctx context.Context, now time.Time) (woken []string, next time.Time, err error) {
	var due []Timer
	err = b.peek(ctx, func(c *sqlite.Conn) (err error) {
		due, err = collect(c, scanTimer, selectDueTimers, now.Unix())
		return err
	})
	var suspect error
	for i := 0; err == nil && i < len(due); i++ {
		var id string
		if id, err = b.wake(ctx, due[i], now); id != "" {
			woken = append(woken, id)
		}
		if Committed(err) {
			suspect, err = err, nil
		}
	}
	if err != nil {
		return woken, time.Time{}, err
	}
	next, err = b.nextTimer(ctx)
	if err == nil {
		err = suspect
	}
	return woken, next, err
}

func (b *Board) nextTimer(ctx context.Context) (time.Time, error) {
	var at int64
	err := b.peek(ctx, func(c *sqlite.Conn) error {
		_, err := c.Row(selectNextTimer, nil, &at)
		return err
	})
	if err != nil || at == 0 {
		return time.Time{}, err
	}
	return time.Unix(at, 0), nil
}

func (b *Board) wake(ctx context.Context, due Timer, now time.Time) (woken string, err error) {
	err = b.write(ctx, "wake card", func(t *txn) (err error) {
		woken, err = t.wake(due, now)
		return err
	})
	if err != nil && !Committed(err) {
		return "", err
	}
	return woken, err
}

func (t *txn) wake(due Timer, now time.Time) (woken string, err error) {
	timers, err := collect(t.Conn, scanTimer, selectDueTimer, due.Task, due.Due)
	if err != nil || len(timers) == 0 {
		return "", err // another process was faster
	}
	timer := timers[0]
	card, err := loadTask(t.Conn, timer.Task)
	if ignoreMissing(err) != nil {
		return "", err
	}
	var one int64
	moved, err := t.Row(selectMovedSince, []any{timer.Task, timer.since}, &one)
	switch {
	case err != nil:
		return "", err
	case card.Status != StatusScheduled || moved:
		_, err := t.run("drop schedule", deleteSchedule, timer.Task)
		return "", err
	case timer.Due > now.Unix():
		return "", t.setBack(card, timer, now)
	case timer.Rule != "":
		return t.recur(card, timer, now)
	}
	_, err = t.unblock(card, "due")
	return card.ID, err
}

// recur makes the copy for the times that have come, one for all of them, and moves the time on.
func (t *txn) recur(pattern Task, timer Timer, now time.Time) (woken string, err error) {
	next, last, missed, err := timer.after(now)
	if err != nil {
		return "", t.unschedulable(pattern, timer, now, err)
	}
	open, err := t.copyOpen(timer.LastCopy)
	if err != nil {
		return "", err
	}
	if open {
		return "", t.passOver(pattern, timer, now, next, missed+1)
	}
	copied, err := t.newCopy(pattern, timer.Due, last.Unix())
	if err != nil || copied.IdempotencyKey == "" {
		return "", errors.Join(err, t.moveOn(timer, now, next))
	}
	made, err := t.create(copied)
	if err != nil {
		return "", err
	}
	if err := t.must("copy card", copyLabels, opt(pattern.WorkflowTemplateID), opt(pattern.CurrentStepKey), made.ID); err != nil {
		return "", err
	}
	if _, err := t.run("copy attachments", copyAttachments, made.ID, t.now, pattern.ID); err != nil {
		return "", err
	}
	if !mutation.On("recurrence-stays-due") {
		timer.LastFired, timer.LastCopy, timer.Missed = now.Unix(), made.ID, timer.Missed+missed
		if err := t.moveOn(timer, now, next); err != nil {
			return "", err
		}
	}
	p := payload{{"copy", made.ID}, {"due_at", timer.Due}, {"next_at", next.Unix()}}
	if missed > 0 {
		p = append(p, field{"missed", missed})
	}
	return made.ID, t.event(pattern.ID, 0, "recurred", p)
}

// moveOn writes a timer with its next time; the epoch is never.
func (t *txn) moveOn(timer Timer, now, next time.Time) error {
	return t.must("move timer on", fireTimer, now.Unix(), next.Unix(), opt(timer.LastFired), opt(timer.LastCopy), timer.Missed, timer.Task)
}

// setBack gives a rule its next time by the clock as it is now.
func (t *txn) setBack(pattern Task, timer Timer, now time.Time) error {
	next, _, _, err := timer.after(now)
	if err != nil {
		return t.unschedulable(pattern, timer, now, err)
	}
	if mutation.On("rule-sleeps-after-a-clock-set-back") {
		next = time.Unix(timer.Due, 0)
	}
	if err := t.moveOn(timer, now, next); err != nil {
		return err
	}
	return t.event(pattern.ID, 0, "recurrence_set_back", payload{{"due_at", timer.Due}, {"next_at", next.Unix()}})
}

// after gives the rule's next time after now, the last that has come, and how many have come since the one that is due.
func (m Timer) after(now time.Time) (next, last time.Time, missed int64, err error) {
	r, err := parseRule(m.Rule, m.Zone, now)
	if err != nil {
		return next, last, 0, err
	}
	last = time.Unix(m.Due, 0)
	for missed < maxMissed {
		at, ok := r.next(last)
		if !ok || at.After(now) {
			break
		}
		last = at
		missed++
	}
	next, _ = r.next(now)
	return next, last, missed, nil
}

// newCopy is the copy for the time that is due. Where that had one, because the clock or the rule was set back over it, it
// is the one for the last time that has come; its key is empty where that had one too.
func (t *txn) newCopy(pattern Task, due, last int64) (NewTask, error) {
	for _, at := range []int64{due, last} {
		var one int64
		in := pattern.again(at)
		if had, err := t.Row(selectCopyOf, []any{in.IdempotencyKey}, &one); err != nil || !had {
			return in, err
		}
	}
	return NewTask{}, nil
}

// again is the card that a pattern makes. A branch and a place that were made for the pattern are not the copy's.
func (t Task) again(due int64) NewTask {
	return NewTask{
		Title: t.Title, Body: t.Body, Assignee: t.Assignee, Tenant: t.Tenant, Priority: t.Priority, WorkspaceKind: t.WorkspaceKind,
		WorkspacePath: t.ownPath(), ProjectID: t.ProjectID, IdempotencyKey: fmt.Sprintf("%s@%d", t.ID, due), MaxRuntimeSeconds: t.MaxRuntimeSeconds,
		Skills: t.Skills, MaxRetries: t.MaxRetries, GoalMode: t.GoalMode, GoalMaxTurns: t.GoalMaxTurns, ModelOverride: t.ModelOverride,
		ProviderOverride: t.ProviderOverride, ReasoningEffort: t.ReasoningEffort, CompletionContract: t.CompletionContract, CreatedBy: t.ID,
		CreatorTask: t.ID, SessionID: t.SessionID,
	}
}

func (t *txn) copyOpen(id string) (bool, error) {
	if id == "" {
		return false, nil
	}
	var status string
	there, err := t.Row(selectStatus, []any{id}, &status)
	return there && !Status(status).Satisfied(), err
}

// passOver moves the time on and makes nothing: the last copy is still open. It says so once for each copy that is in the
// way, since a line for each time would bury the history.
func (t *txn) passOver(pattern Task, timer Timer, now, next time.Time, passed int64) error {
	timer.Missed += passed
	if err := t.moveOn(timer, now, next); err != nil {
		return err
	}
	var last string
	if _, err := t.Row(selectPassedOver, []any{pattern.ID}, &last); err != nil || last == timer.LastCopy {
		return err
	}
	return t.event(pattern.ID, 0, "recurrence_passed_over", payload{{"open", timer.LastCopy}, {"due_at", timer.Due}, {"next_at", next.Unix()}})
}

const selectPassedOver = `SELECT CASE WHEN kind = 'recurrence_passed_over' THEN json_extract(CASE WHEN json_valid(payload) THEN payload END, '$.open') END
FROM task_events WHERE task_id = ? AND kind IN ('recurrence_passed_over', 'recurred', 'scheduled') ORDER BY id DESC LIMIT 1`

// unschedulable: a rule that can no longer be read has no next time. A person must look at it.
func (t *txn) unschedulable(pattern Task, timer Timer, now time.Time, cause error) error {
	if err := t.moveOn(timer, now, time.Unix(0, 0)); err != nil {
		return err
	}
	return t.event(pattern.ID, 0, "recurrence_ended", payload{{"error", cut(clean(cause.Error()), maxError)}, {"due_at", timer.Due}})
}
