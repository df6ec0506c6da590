package kanban

import "context"

// Review hands a card to a reviewer.
type Review struct {
	Run       *RunID // the run that the caller acts for; nil = a person
	Summary   string
	Reviewer  string // "" = whoever has the card
	Metadata  map[string]any
	Artifacts []string // files in the workspace that the reviewer needs
	Force     bool     // under a live worker's feet
}

// RequestReview moves a running or ready card to review and gives it to the reviewer; the implementer is remembered.
func (b *Board) RequestReview(ctx context.Context, task string, r Review) error {
	return notYet(task, "sent to review")
}

// RequestChanges ends a review without approval: the card goes back to its implementer.
func (b *Board) RequestChanges(ctx context.Context, task string, run *RunID, reason string) error {
	return notYet(task, "sent back")
}

// ReopenReview puts a card that left review back into it.
func (b *Board) ReopenReview(ctx context.Context, task, reason string) error {
	return notYet(task, "put back into review")
}
