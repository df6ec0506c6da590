package kanban

import "context"

// Archive hides a card in any status; it counts as done for its children. A run that is open is closed as reclaimed, and
// its worker, whose run is then superseded, is ended by the dispatcher.
func (b *Board) Archive(ctx context.Context, task string) error {
	return b.write(ctx, "archive card", func(t *txn) error {
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return err
		}
		return t.archive(card, Movement{})
	})
}

func (t *txn) archive(card Task, m Movement) error {
	if card.Status == StatusArchived {
		return conflict(card.ID, ErrConflict, "is archived already")
	}
	if err := t.place(card, StatusArchived, sameStart); err != nil {
		return err
	}
	if err := t.abandon(card, Stop{Reason: "the card was archived", Actor: m.Actor}); err != nil {
		return err
	}
	if err := t.event(card.ID, card.CurrentRunID, "archived", m.payload()); err != nil {
		return err
	}
	return t.promoteChildren(card.ID)
}
