package kanban

import "context"

// Decomposition splits a rough idea into cards. Parents of a child are ids on the board, or "#1" for the first child of
// the list and so on.
type Decomposition struct {
	Children     []NewTask
	RootAssignee string // who puts the parts together; "" = as it is
	Author       string
}

// Decompose makes the children of a triage card, once; the card waits for all of them.
func (b *Board) Decompose(ctx context.Context, task string, d Decomposition) ([]Task, error) {
	return nil, notYet(task, "decomposed")
}
