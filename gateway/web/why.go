package web

import (
	"context"
	"strings"
	"time"

	"gatewayd/kanban"
)

// Hold is one gate that keeps a card from running, in the words of the API.
type Hold struct {
	Reason string // its name
	Detail string
	Since  *time.Time
	Until  *time.Time // when it passes by itself; nil = not by itself
	Remedy string
}

// Advice reports whether its remedy is something to do.
func (h Hold) Advice() bool { return h.Remedy != "" && !strings.HasPrefix(h.Remedy, "nothing") }

// Why explains why cards do not run: the dispatcher.
type Why interface {
	// Why gives all that holds one card, the first gate first.
	Why(ctx context.Context, board kanban.Slug, task string) ([]Hold, error)
	// Firsts gives the first gate of each of the named cards, for a board full of them.
	Firsts(ctx context.Context, board kanban.Slug, tasks []string) (map[string]Hold, error)
}
