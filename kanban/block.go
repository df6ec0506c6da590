package kanban

import (
	"context"
	"slices"
	"strings"
)

// Block parks a card with a reason.
type Block struct {
	Run    *RunID // the run that the caller acts for; nil = a person
	Reason string
	Kind   string // dependency, needs_input, capability, transient or ""
	By     string // who says so: the reason is then a comment of theirs too; "" leaves none
}

const (
	parkTask = `UPDATE tasks SET status = ?, claim_lock = NULL, claim_expires = NULL, worker_pid = NULL, worker_started_at = NULL,
    current_run_id = NULL, block_kind = ?, block_recurrences = ? WHERE id = ?`
	classifyTask       = `UPDATE tasks SET block_kind = ?, block_recurrences = 1 WHERE id = ?`
	selectBreakerBlock = `SELECT 1 FROM task_events WHERE task_id = ? AND kind = 'gave_up'
AND id > COALESCE((SELECT MAX(id) FROM task_events WHERE task_id = ? AND kind IN ('blocked', 'unblocked')), 0)`
)

// Block parks a running or ready card until a person unblocks it. A dependency goes back to todo and on when its parents are
// done; without an open parent it would start again at once and for ever, so it waits for a person instead. The same kind of
// block twice in a row is reported in the history, and the card stays where a person looks for it.
func (b *Board) Block(ctx context.Context, task string, block Block) error {
	kinds := []string{"", BlockDependency, BlockNeedsInput, BlockCapability, BlockTransient}
	if !slices.Contains(kinds, block.Kind) {
		return invalidField("kind", "block kind "+quote(block.Kind), "is not known", "use dependency, needs_input, capability or transient, or leave it out")
	}
	block.Reason = b.said(clean(strings.TrimSpace(block.Reason)))
	if block.Reason == "" {
		return invalidField("reason", "the block of "+cardThing(task), "has no reason", "say what the card waits for")
	}
	return b.write(ctx, "block card", func(t *txn) error { return t.block(task, block) })
}

func (t *txn) block(task string, block Block) error {
	card, err := loadTask(t.Conn, task)
	if err != nil {
		return err
	}
	if block.Run != nil && (card.Status != StatusRunning || *block.Run == 0 || *block.Run != card.CurrentRunID) {
		return staleRun(task, *block.Run, card)
	}
	if card.GoalMode && block.Kind != BlockDependency && block.Kind != BlockNeedsInput {
		return invalidField("kind", cardThing(task), "is in goal mode and blocks only with a kind of dependency or needs_input", "name one of them")
	}
	if err := t.remark(task, block); err != nil {
		return err
	}
	switch card.Status {
	case StatusRunning, StatusReady:
	case StatusBlocked:
		return t.classify(card, block)
	default:
		return conflict(task, ErrConflict, "is %s and cannot be blocked", card.Status)
	}
	open, err := openParents(t.Conn, task)
	if err != nil {
		return err
	}
	if block.Kind == BlockDependency && len(open) > 0 {
		return t.waitForParents(card, block)
	}
	return t.park(card, block)
}

// remark keeps the reason where people talk about the card. It goes with the block that is refused.
func (t *txn) remark(task string, block Block) error {
	by := clean(strings.TrimSpace(block.By))
	if by == "" {
		return nil
	}
	_, err := t.comment(task, by, block.Reason)
	return err
}

// classify gives the breaker's own block the kind that a person found.
func (t *txn) classify(card Task, block Block) error {
	var one int64
	byBreaker, err := t.Row(selectBreakerBlock, []any{card.ID, card.ID}, &one)
	if err != nil {
		return err
	}
	if !byBreaker || card.BlockKind != "" || block.Kind == "" || block.Kind == BlockDependency {
		return conflict(card.ID, ErrConflict, "is blocked already")
	}
	if err := t.must("classify block", classifyTask, block.Kind, card.ID); err != nil {
		return err
	}
	return t.event(card.ID, 0, EventBlocked, payload{
		{"reason", opt(block.Reason)}, {"kind", block.Kind}, {"recurrences", 1}, {"classified_in_place", true},
	})
}

func (t *txn) waitForParents(card Task, block Block) error {
	p, err := t.withSource(card, payload{{"reason", opt(block.Reason)}, {"kind", block.Kind}})
	if err != nil {
		return err
	}
	run, err := t.stopFor(card, StatusTodo, block, card.BlockRecurrences)
	if err != nil {
		return err
	}
	return t.event(card.ID, run, "dependency_wait", p)
}

func (t *txn) park(card Task, block Block) error {
	more := payload{}
	if block.Kind == BlockDependency {
		block.Kind = BlockNeedsInput
		more = payload{{"requested_kind", BlockDependency}, {"rekind_reason", "no_open_parents"}}
	}
	recurrences := int64(1)
	if block.Kind != "" && block.Kind == card.BlockKind {
		recurrences = card.BlockRecurrences + 1
	}
	p := append(payload{{"reason", opt(block.Reason)}, {"kind", opt(block.Kind)}, {"recurrences", recurrences}}, more...)
	p, err := t.withSource(card, p)
	if err != nil {
		return err
	}
	run, err := t.stopFor(card, StatusBlocked, block, recurrences)
	if err != nil {
		return err
	}
	if err := t.event(card.ID, run, EventBlocked, p); err != nil || recurrences < BlockRecurrenceLimit {
		return err
	}
	return t.event(card.ID, run, "block_loop_detected", payload{
		{"reason", opt(block.Reason)}, {"kind", block.Kind}, {"recurrences", recurrences}, {"limit", BlockRecurrenceLimit},
	}.keep(p, "source_status"))
}

func (t *txn) stopFor(card Task, to Status, block Block, recurrences int64) (RunID, error) {
	if err := t.must("park card", parkTask, string(to), opt(block.Kind), recurrences, card.ID); err != nil {
		return 0, err
	}
	run, err := t.closeWith(card, string(StatusBlocked), OutcomeBlocked, block.Reason, "")
	if err == nil && block.Run == nil {
		err = t.endWorker(card, Stop{Reason: block.Reason})
	}
	return run, err
}

// withSource keeps in the history that the card is to go on in review.
func (t *txn) withSource(card Task, p payload) (payload, error) {
	if card.CurrentRunID == 0 {
		return p, nil
	}
	from, err := sourceStatus(t.Conn, card.CurrentRunID)
	if err == nil && from == StatusReview {
		p = append(p, field{"source_status", StatusReview})
	}
	return p, err
}

// keep copies one key of another payload, if it is there.
func (p payload) keep(from payload, key string) payload {
	if at := from.find(key); at >= 0 {
		return append(p, from[at])
	}
	return p
}

// Unblock lets a blocked or scheduled card go on: to todo while a parent is open, else to ready or review. It is a fresh
// start for the breaker, but not for the count of same-kind blocks.
func (b *Board) Unblock(ctx context.Context, task, reason string) error {
	return b.write(ctx, "unblock card", func(t *txn) error {
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return err
		}
		_, err = t.unblock(card, reason)
		return err
	})
}

func (t *txn) unblock(card Task, reason string) (Status, error) {
	if card.Status != StatusBlocked && card.Status != StatusScheduled {
		return "", conflict(card.ID, ErrConflict, "is %s, not blocked", card.Status)
	}
	resume, err := t.resumeStatus(card.ID)
	if err != nil {
		return "", err
	}
	open, err := openParents(t.Conn, card.ID)
	if err != nil {
		return "", err
	}
	to := resume
	if len(open) > 0 {
		to = StatusTodo
	}
	if err := t.place(card, to, freshStart); err != nil {
		return "", err
	}
	return to, t.event(card.ID, 0, EventUnblocked, unblockedPayload(to, resume, reason))
}

func unblockedPayload(to, resume Status, reason string) payload {
	var p payload
	if to != StatusReady {
		p = append(p, field{"status", to})
	}
	if to == StatusTodo && resume == StatusReview {
		p = append(p, field{"resume_status", resume})
	}
	return p.say("reason", reason)
}
