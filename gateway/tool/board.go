package tool

import "context"

// Board is the one card a worker may speak for. Who implements it fences every change by the worker's run: a worker of an older
// run is refused everything. An empty task means the worker's own.
type Board interface {
	Show(ctx context.Context, task string) (any, error) // marshalled to JSON for the model
	Complete(ctx context.Context, done Completion) error
	Block(ctx context.Context, reason, kind string) error
	Comment(ctx context.Context, task, body string) error
}

// Completion is what a worker says at the end of its card. One of Summary and Result is set.
type Completion struct {
	Summary, Result string
	Metadata        map[string]any
	CreatedCards    []string
}
