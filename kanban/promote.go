package kanban

import "context"

// PromoteByHand lets a todo or blocked card go on now. With open parents it is refused unless force says otherwise.
func (b *Board) PromoteByHand(ctx context.Context, task, reason, actor string, force bool) error {
	return notYet(task, "promoted by hand")
}
