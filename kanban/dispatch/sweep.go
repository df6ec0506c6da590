package dispatch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

// sweepEvery is how often finished cards' workspaces are looked for when no run ended.
const sweepEvery = 10 * time.Minute

// sweep removes the scratch workspaces of cards that are done or archived. What to remove follows from the
// directories that are there and the cards' status, so that a restart forgets nothing. A parent's files stay until
// its children, who may read them, have ended too.
func (d *Dispatcher) sweep(ctx context.Context, b *board, ended bool, p *pass) {
	if !ended && p.now.Sub(b.swept) < sweepEvery {
		return
	}
	b.swept = p.now
	root := filepath.Dir(d.o.Root.WorkspaceDir(b.slug, "x"))
	entries, err := os.ReadDir(root)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			b.log.Warn("workspaces cannot be listed", "path", root, "error", err)
		}
		return
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return
		}
		if worker.CheckID(e.Name()) == nil && d.finished(ctx, b, e.Name()) {
			d.discard(b, root, e.Name())
		}
	}
}

// finished reports whether a card's own workspace is no longer needed by anybody.
func (d *Dispatcher) finished(ctx context.Context, b *board, task string) bool {
	if d.lives(b.slug, task) {
		return false
	}
	card, err := b.handle.Task(ctx, task)
	if err != nil || !card.Status.Satisfied() || card.WorkspaceKind != kanban.WorkspaceScratch {
		return false
	}
	detail, err := b.handle.Show(ctx, task)
	if err != nil {
		return false
	}
	for _, id := range detail.Children {
		child, err := b.handle.Task(ctx, id)
		if err != nil && !errors.Is(err, kanban.ErrNotFound) || err == nil && !over(child.Status) {
			return false
		}
	}
	return true
}

// over: the statuses that newer Hermes calls terminal as well.
func over(s kanban.Status) bool { return s.Satisfied() || s == "failed" || s == "cancelled" }

func (d *Dispatcher) lives(slug kanban.Slug, task string) bool {
	for _, w := range d.workers {
		if w.board == slug && w.task == task && w.exit == nil {
			return true
		}
	}
	return false
}

func (d *Dispatcher) discard(b *board, root, task string) {
	path := filepath.Join(root, task)
	if err := worker.RemoveScratch(root, path); err != nil {
		b.log.Warn("workspace stays", "task", task, "path", path, "error", err)
		return
	}
	b.log.Debug("workspace removed", "task", task, "path", path)
}
