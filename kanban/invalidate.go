package kanban

import "gatewayd/internal/mutation"

const (
	// All that was built on a card, nearest first. An archived card stays done for its children, so the walk ends there.
	selectDescendants = `WITH RECURSIVE down(id, depth) AS (
    SELECT l.child_id, 1 FROM task_links l WHERE l.parent_id = ?1
    UNION SELECT l.child_id, down.depth + 1 FROM task_links l JOIN down ON l.parent_id = down.id JOIN tasks d ON d.id = down.id
    WHERE d.status <> 'archived' AND down.depth < 1000)
SELECT ` + taskColumns + ` FROM tasks t JOIN (SELECT id, MIN(depth) AS depth FROM down GROUP BY id) k ON k.id = t.id
WHERE t.status IN ('ready', 'review', 'running', 'done') AND t.id <> ?1 ORDER BY k.depth, t.created_at, t.id`
)

// invalidate puts back what was built on a card that is open again: it waits for it once more, and is done anew. A worker
// in the middle of it is ended. It names the cards.
func (t *txn) invalidate(reopened Task) ([]string, error) {
	if mutation.On("descendants-stay-valid") {
		return nil, nil
	}
	cards, err := collect(t.Conn, scanTask, selectDescendants, reopened.ID)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, card := range cards {
		if err := t.invalidateOne(card, reopened); err != nil {
			return nil, err
		}
		ids = append(ids, card.ID)
	}
	return ids, nil
}

func (t *txn) invalidateOne(card, reopened Task) error {
	if err := t.place(card, StatusTodo, freshStart); err != nil {
		return err
	}
	heir, err := t.implementer(card)
	if err != nil {
		return err
	}
	if heir != "" {
		if err := t.hand(card, heir, ""); err != nil {
			return err
		}
	}
	if err := t.abandon(card, Stop{Reason: "card " + reopened.ID + " was reopened"}); err != nil {
		return err
	}
	if _, err := t.comment(card.ID, "gatewayd", "Card "+reopened.ID+", which this one builds on, was reopened. This card waits for it and is done anew."); err != nil {
		return err
	}
	if err := t.event(card.ID, card.CurrentRunID, "descendant_invalidated", payload{{"ancestor", reopened.ID}, {"from", card.Status}}); err != nil {
		return err
	}
	return t.event(card.ID, 0, "status", statusPayload(StatusTodo, card.Status, Movement{}))
}
