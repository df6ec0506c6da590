package kanban

import (
	"context"

	"gatewayd/internal/problem"
)

const (
	selectLink   = `SELECT 1 FROM task_links WHERE parent_id = ? AND child_id = ?`
	deleteLink   = `DELETE FROM task_links WHERE parent_id = ? AND child_id = ?`
	selectCycle  = `WITH RECURSIVE up(id) AS (SELECT ? UNION SELECT l.parent_id FROM task_links l JOIN up ON l.child_id = up.id) SELECT 1 FROM up WHERE id = ?`
	demoteLinked = `UPDATE tasks SET status = 'todo' WHERE id = ? AND status = 'ready' AND claim_lock IS NULL`

	// The routing columns by name; the cursors start at the newest event, so that history is not told again.
	copySubs = `INSERT OR IGNORE INTO kanban_notify_subs (task_id, platform, chat_id, thread_id, user_id, user_id_alt, chat_type, notifier_profile,
    delivery_mode, notify_progress, delivery_metadata, created_at, last_event_id, last_ping_event_id)
SELECT ?, platform, chat_id, thread_id, user_id, user_id_alt, chat_type, notifier_profile, delivery_mode, notify_progress, delivery_metadata, ?, ?, ?
FROM kanban_notify_subs WHERE task_id = ?`
)

// Link makes child wait for parent. An existing pair is no error. A child that somebody runs is refused, a ready child with
// an open parent goes back to todo.
func (b *Board) Link(ctx context.Context, parent, child string) error {
	return b.LinkAs(ctx, parent, child, 0)
}

// LinkAs is Link by the worker of the child's run, which may add a parent to the card it is running.
func (b *Board) LinkAs(ctx context.Context, parent, child string, run RunID) error {
	return b.write(ctx, "link cards", func(t *txn) error { return t.link(parent, child, run) })
}

func (t *txn) link(parentID, childID string, run RunID) error {
	parent, err := loadTask(t.Conn, parentID)
	if err != nil {
		return err
	}
	child, err := loadTask(t.Conn, childID)
	if err != nil {
		return err
	}
	var one int64
	if there, err := t.Row(selectLink, []any{parentID, childID}, &one); err != nil || there {
		return err
	}
	if err := t.linkable(parent, child, run); err != nil {
		return err
	}
	if err := t.must("link cards", insertLink, parentID, childID); err != nil {
		return err
	}
	if err := t.event(childID, 0, "linked", payload{{"parent", parentID}, {"child", childID}}); err != nil {
		return err
	}
	if err := t.demoteLinked(parent, child); err != nil {
		return err
	}
	return t.copySubs(parentID, childID)
}

func (t *txn) linkable(parent, child Task, run RunID) error {
	if parent.ID == child.ID {
		return invalidField("parent_id", cardThing(child.ID), "cannot wait for itself", "name another parent")
	}
	if child.Status == StatusRunning && (run == 0 || run != child.CurrentRunID) {
		if run != 0 {
			return staleRun(child.ID, run, child)
		}
		return conflict(child.ID, ErrLiveClaim, "is running and cannot be made to wait")
	}
	var one int64
	cycle, err := t.Row(selectCycle, []any{parent.ID, child.ID}, &one)
	if err != nil {
		return err
	}
	if cycle {
		return conflict(child.ID, ErrConflict, "would wait for itself: %s waits for it already, at once or through others", cardThing(parent.ID))
	}
	return nil
}

func (t *txn) demoteLinked(parent, child Task) error {
	if child.Status != StatusReady || parent.Status.Satisfied() {
		return nil
	}
	n, err := t.run("put card back", demoteLinked, child.ID)
	if err != nil || n == 0 {
		return err
	}
	return t.event(child.ID, 0, "dependency_wait", payload{{"reason", "parent_not_done"}, {"parent", parent.ID}, {"demoted", true}})
}

// copySubs gives a card the subscriptions of another.
func (t *txn) copySubs(from, to string) error {
	if from == "" {
		return nil
	}
	if _, err := t.run("copy subscriptions", copySubs, to, t.now, t.last.ID, t.last.ID, from); err != nil {
		return err
	}
	_, err := t.run("copy subscriptions", copySubscribed, to, t.now, t.last.ID, from)
	return err
}

// Unlink takes a link away and lets the child go on if nothing else holds it. A link that is not there is a NotFound problem.
func (b *Board) Unlink(ctx context.Context, parent, child string) error {
	return b.write(ctx, "unlink cards", func(t *txn) error {
		if err := t.unlink(parent, child); err != nil {
			return err
		}
		return t.promoteIfFree(child)
	})
}

func (t *txn) unlink(parent, child string) error {
	n, err := t.run("unlink cards", deleteLink, parent, child)
	if err != nil {
		return err
	}
	if n == 0 {
		return &problem.Error{
			Kind: problem.NotFound, Thing: cardThing(child), What: "does not wait for " + quote(parent), Fate: unchanged, Err: mark{ErrNotFound},
		}
	}
	return t.event(child, 0, "unlinked", payload{{"parent", parent}, {"child", child}})
}

func (t *txn) promoteIfFree(id string) error {
	card, err := loadTask(t.Conn, id)
	if err != nil || card.Status != StatusTodo {
		return ignoreMissing(err)
	}
	open, err := openParents(t.Conn, id)
	if err != nil || len(open) > 0 {
		return err
	}
	return t.promote([]string{id})
}
