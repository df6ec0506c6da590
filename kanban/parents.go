package kanban

import (
	"context"

	"gatewayd/internal/sqlite"
)

const (
	selectOpenParents = `SELECT p.id FROM task_links l JOIN tasks p ON p.id = l.parent_id
WHERE l.child_id = ? AND p.status NOT IN ('done', 'archived') ORDER BY p.created_at, p.id`

	// A parent that was deleted holds nobody up, here as in Hermes.
	selectPromotable = `SELECT t.id FROM tasks t WHERE t.status = 'todo' AND NOT EXISTS (
    SELECT 1 FROM task_links l JOIN tasks p ON p.id = l.parent_id WHERE l.child_id = t.id AND p.status NOT IN ('done', 'archived'))
ORDER BY t.priority DESC, t.created_at, t.id`
	selectPromotableChildren = `SELECT t.id FROM task_links k JOIN tasks t ON t.id = k.child_id WHERE k.parent_id = ? AND t.status = 'todo' AND NOT EXISTS (
    SELECT 1 FROM task_links l JOIN tasks p ON p.id = l.parent_id WHERE l.child_id = t.id AND p.status NOT IN ('done', 'archived'))
ORDER BY t.priority DESC, t.created_at, t.id`
	promoteTask = `UPDATE tasks SET status = ? WHERE id = ? AND status = 'todo'`
)

func openParents(c *sqlite.Conn, child string) ([]string, error) {
	return texts(c, selectOpenParents, child)
}

// Promote moves every todo card whose parents are all done or archived to ready, or to review where it came from there,
// and names the cards it moved. Blocked cards stay: only a person or a verb unblocks. With nothing to promote it writes nothing.
func (b *Board) Promote(ctx context.Context) ([]string, error) {
	var ids []string
	err := b.read(ctx, func(c *sqlite.Conn) (err error) {
		ids, err = texts(c, selectPromotable)
		return err
	})
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	err = b.write(ctx, "promote cards", func(t *txn) (err error) {
		if ids, err = texts(t.Conn, selectPromotable); err != nil {
			return err
		}
		return t.promote(ids)
	})
	if err != nil && !Committed(err) {
		return nil, err
	}
	return ids, err
}

func (t *txn) promote(ids []string) error {
	for _, id := range ids {
		to, err := t.resumeStatus(id)
		if err != nil {
			return err
		}
		if err := t.must("promote card", promoteTask, string(to), id); err != nil {
			return err
		}
		var p payload
		if to != StatusReady {
			p = payload{{"status", to}}
		}
		if err := t.event(id, 0, "promoted", p); err != nil {
			return err
		}
	}
	return nil
}

// promoteChildren is Promote for the children of one card, inside the transaction that finished it.
func (t *txn) promoteChildren(parent string) error {
	ids, err := texts(t.Conn, selectPromotableChildren, parent)
	if err != nil {
		return err
	}
	return t.promote(ids)
}

const (
	selectLastLifecycle = `SELECT json_extract(CASE WHEN json_valid(payload) THEN payload END, '$.resume_status', '$.retry_status', '$.source_status')
FROM task_events WHERE task_id = ? AND kind IN ('created', 'claimed', 'claim_rejected', 'dependency_wait', 'blocked', 'unblocked', 'scheduled',
    'promoted', 'promoted_manual', 'review_requested', 'changes_requested', 'review_reopened', 'reclaimed', 'reconciled', 'crashed', 'timed_out',
    'stale', 'spawn_failed', 'rate_limited', 'protocol_violation', 'gave_up', 'completed', 'descendant_invalidated', 'status', 'specified')
ORDER BY id DESC LIMIT 1`
	selectClaimSource = `SELECT COALESCE(json_extract(CASE WHEN json_valid(payload) THEN payload END, '$.source_status'), '') FROM task_events
WHERE run_id = ? AND kind = 'claimed' ORDER BY id LIMIT 1`
)

// resumeStatus is where a parked card goes on: review if the newest line of its life says that it came from there.
func (t *txn) resumeStatus(id string) (Status, error) { return resumeStatus(t.Conn, id) }

func resumeStatus(c *sqlite.Conn, id string) (Status, error) {
	var found string
	if _, err := c.Row(selectLastLifecycle, []any{id}, &found); err != nil {
		return "", err
	}
	return resumeFrom(found), nil
}

// resumeFrom reads the three keys that json_extract gives as one list.
func resumeFrom(list string) Status {
	for _, s := range decodeLoose(list) {
		if s == string(StatusReview) {
			return StatusReview
		}
	}
	return StatusReady
}

// sourceStatus is where the card of a run was claimed from.
func sourceStatus(c *sqlite.Conn, run RunID) (Status, error) {
	var found string
	if _, err := c.Row(selectClaimSource, []any{int64(run)}, &found); err != nil {
		return "", err
	}
	if found == string(StatusReview) {
		return StatusReview, nil
	}
	return StatusReady, nil
}
