package kanban

import "context"

// Edit changes what a card says. Nil leaves a field alone. Result, Summary and Metadata are those of a finished card.
type Edit struct {
	Title, Body, Tenant                     *string
	Priority, MaxRuntimeSeconds, MaxRetries *int64 // 0 = none
	Skills                                  *[]string
	Result, Summary                         *string
	Metadata                                map[string]any
}

// Edit changes a card in any status.
func (b *Board) Edit(ctx context.Context, task string, e Edit) error { return notYet(task, "edited") }

// ModelChoice is the model that a card's worker uses. Nil leaves a field alone, "" clears it.
type ModelChoice struct{ Model, Provider, Reasoning *string }

// SetModel changes it, for the next attempt.
func (b *Board) SetModel(ctx context.Context, task string, m ModelChoice) error {
	return notYet(task, "given a model")
}
