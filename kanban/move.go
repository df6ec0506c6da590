package kanban

import "context"

// Movement says why a card is moved and by whom.
type Movement struct{ Reason, Actor string }

// Moves lists the statuses to which a person may drag a card.
func Moves(from Status) []Status { return nil }

// Move drags a card to another status. Reopening a finished card invalidates what was built on it.
func (b *Board) Move(ctx context.Context, task string, to Status, m Movement) (Released, error) {
	return Released{}, notYet(task, "moved")
}
