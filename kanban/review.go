package kanban

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Review hands a card to a reviewer.
type Review struct {
	Run       *RunID // the run that the caller acts for; nil = a person
	Summary   string
	Reviewer  string // "" = whoever has the card
	Metadata  map[string]any
	Artifacts []string // files in the workspace that the reviewer needs; what is copied is copied whole or the verb does nothing
	Force     bool     // under a live worker's feet
}

// RequestReview moves a running or ready card to review and gives it to the reviewer; the implementer is remembered. A
// worker must say what there is to review. The attempt ended well: the breaker starts afresh.
func (b *Board) RequestReview(ctx context.Context, task string, r Review) error {
	r.Summary, r.Metadata = b.said(clean(strings.TrimSpace(r.Summary))), b.saidObject(r.Metadata)
	reviewer, err := parseAssignee(r.Reviewer)
	if err != nil {
		return err
	}
	r.Reviewer = reviewer
	metadata, err := encodeMap(r.Metadata)
	if err != nil {
		return invalidField("metadata", "metadata of "+cardThing(task), err.Error(), "send a plain JSON object")
	}
	shown, err := b.stage(ctx, task, r.Run, r.Artifacts)
	if err != nil {
		return err
	}
	err = b.write(ctx, "request review", func(t *txn) error {
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return err
		}
		return t.requestReview(card, r, metadata, shown)
	})
	if drop := shown.settle(nil, err); drop != nil {
		b.log.Warn("copies of artifacts stay", "task", task, "error", drop)
	}
	return err
}

func (t *txn) requestReview(card Task, r Review, metadata string, shown staged) error {
	if err := t.mayEnd(card, r.Run, r.Force, time.Unix(t.now, 0)); err != nil {
		return err
	}
	if card.Status != StatusRunning && card.Status != StatusReady {
		return conflict(card.ID, ErrConflict, "is %s and has nothing to review", card.Status)
	}
	if r.Run != nil && r.Summary == "" && metadata == "" && len(r.Artifacts) == 0 {
		return invalidField("summary", "the review of "+cardThing(card.ID), "has nothing to look at", "say in the summary what was done")
	}
	implementer, err := t.worksOn(card)
	if err != nil {
		return err
	}
	if err := t.keep(card, shown); err != nil {
		return err
	}
	if err := t.place(card, StatusReview, freshStart); err != nil {
		return err
	}
	if r.Reviewer != "" {
		if err := t.must("assign card", setAssignee, r.Reviewer, card.ID); err != nil {
			return err
		}
	}
	run, err := t.closeWith(card, string(StatusReview), OutcomeReview, r.Summary, metadata)
	if err != nil {
		return err
	}
	if r.Run == nil {
		if err := t.endWorker(card, Stop{Reason: "the card went to review"}); err != nil {
			return err
		}
	}
	return t.event(card.ID, run, "review_requested", payload{
		{"summary", opt(firstLine(r.Summary, 400))}, {"implementer", opt(implementer)}, {"reviewer", opt(r.Reviewer)}, {"artifacts", append([]string{}, shown.paths()...)},
	})
}

const (
	setAssignee = `UPDATE tasks SET assignee = ? WHERE id = ?`

	selectReviewers = `SELECT json_extract(p, '$.implementer'), json_extract(p, '$.reviewer') FROM (
    SELECT CASE WHEN json_valid(payload) THEN payload END AS p FROM task_events WHERE task_id = ? AND kind = 'review_requested' ORDER BY id DESC LIMIT 1)`
)

// reviewers are the two sides of a card's newest review; "" = not known.
func (t *txn) reviewers(task string) (implementer, reviewer string, err error) {
	_, err = t.Row(selectReviewers, []any{task}, &implementer, &reviewer)
	return implementer, reviewer, err
}

// worksOn is who implements a card: its assignee, or, while a reviewer has it, who handed it over.
func (t *txn) worksOn(card Task) (string, error) {
	implementer, err := t.implementer(card)
	if implementer == "" {
		implementer = card.Assignee
	}
	return implementer, err
}

// implementer is to whom a card goes back that its reviewer has now; "" = it is nobody else's.
func (t *txn) implementer(card Task) (string, error) {
	implementer, reviewer, err := t.reviewers(card.ID)
	if err != nil || reviewer == "" || card.Assignee != reviewer {
		return "", err
	}
	return implementer, nil
}

// RequestChanges ends a review without approval: the card goes back to its implementer, to ready or, while a parent is
// open, to todo. A worker must hold the review; a person may send back a card that waits for its reviewer too.
func (b *Board) RequestChanges(ctx context.Context, task string, run *RunID, reason string) error {
	reason = b.said(clean(strings.TrimSpace(reason)))
	if reason == "" {
		return invalidField("reason", "the changes of "+cardThing(task), "are not said", "say what is to be changed")
	}
	return b.write(ctx, "request changes", func(t *txn) error {
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return err
		}
		if err := t.inReview(card, run); err != nil {
			return err
		}
		return t.requestChanges(card, run, reason)
	})
}

func (t *txn) inReview(card Task, run *RunID) error {
	if err := t.mayEnd(card, run, false, time.Unix(t.now, 0)); err != nil {
		return err
	}
	from := card.Status
	if card.Status == StatusRunning {
		var err error
		if from, err = sourceStatus(t.Conn, card.CurrentRunID); err != nil {
			return err
		}
	}
	if from != StatusReview {
		return conflict(card.ID, ErrConflict, "is %s, not in review", card.Status)
	}
	return nil
}

func (t *txn) requestChanges(card Task, run *RunID, reason string) error {
	implementer, err := t.worksOn(card)
	if err != nil {
		return err
	}
	open, err := openParents(t.Conn, card.ID)
	if err != nil {
		return err
	}
	to := StatusReady
	if len(open) > 0 {
		to = StatusTodo
	}
	if err := t.place(card, to, freshStart); err != nil {
		return err
	}
	if err := t.must("assign card", setAssignee, opt(implementer), card.ID); err != nil {
		return err
	}
	closed, err := t.closeWith(card, string(to), OutcomeChanges, reason, "")
	if err != nil {
		return err
	}
	return t.event(card.ID, closed, OutcomeChanges, payload{
		{"reason", reason}, {"implementer", opt(implementer)}, {"reviewer", opt(card.Assignee)}, {"status", to},
	})
}

// ReopenReview puts a card that left review back into it, with the reviewer that it had. A finished one takes what was
// built on it along.
func (b *Board) ReopenReview(ctx context.Context, task, reason string) error {
	return b.write(ctx, "reopen review", func(t *txn) error {
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return err
		}
		return t.reopenReview(card, reason)
	})
}

func (t *txn) reopenReview(card Task, reason string) error {
	if !slices.Contains([]Status{StatusDone, StatusReady, StatusTodo, StatusBlocked, StatusScheduled}, card.Status) {
		return conflict(card.ID, ErrConflict, "is %s and cannot go back to review", card.Status)
	}
	if err := t.parentsDone(card.ID); err != nil {
		return err
	}
	_, reviewer, err := t.reviewers(card.ID)
	if err != nil {
		return err
	}
	if err := t.place(card, StatusReview, freshStart); err != nil {
		return err
	}
	if reviewer != "" {
		if err := t.must("assign card", setAssignee, reviewer, card.ID); err != nil {
			return err
		}
	}
	if err := t.event(card.ID, 0, "review_reopened", payload{{"from", card.Status}, {"reviewer", opt(reviewer)}}.say("reason", reason)); err != nil {
		return err
	}
	if card.Status != StatusDone {
		return nil
	}
	_, err = t.invalidate(card)
	return err
}
