package kanban

import "context"

// Purge removes an archived card for good, with all that hangs on it, and names the stored files that no other card has:
// the caller removes them.
func (b *Board) Purge(ctx context.Context, task string) (gone []string, err error) {
	return nil, notYet(task, "purged")
}

// Delete is Purge for a card in any status without a live worker.
func (b *Board) Delete(ctx context.Context, task string) (gone []string, err error) {
	return nil, notYet(task, "deleted")
}
