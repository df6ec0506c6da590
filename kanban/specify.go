package kanban

import "context"

// Specification turns a rough idea into a card. Nil leaves a field alone.
type Specification struct {
	Title, Body, Assignee *string
	Author                string
}

// Specify moves a card from triage to todo, and on if nothing holds it.
func (b *Board) Specify(ctx context.Context, task string, s Specification) error {
	return notYet(task, "specified")
}
