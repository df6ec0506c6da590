package dispatch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"gatewayd/internal/enclosure"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

// sweepEvery is how often finished cards' workspaces are looked for when nothing told that one may go.
const sweepEvery = 10 * time.Minute

// sweepAgain is the same while some stayed. Every commit brings a tick, and a look costs a read of the directory and of
// all finished cards.
const sweepAgain = 2 * time.Second

// sweeper is what a board remembers of the workspaces of cards that are over.
type sweeper struct {
	at      time.Time       // of the last look
	waiting bool            // a workspace stayed for the sake of other cards
	running map[string]bool // cards at the last tick
	busy    bool            // trees are being removed beside the ticks
	stays   map[string]stay // by card
}

func (s *sweeper) every() time.Duration {
	if s.waiting {
		return sweepAgain
	}
	return sweepEvery
}

// stay is a workspace that could not go. It is said when it begins and when its reason changes.
type stay struct {
	why   string
	again time.Time
	wait  time.Duration
}

const (
	stayFirst   = 10 * time.Minute
	stayLongest = 6 * time.Hour
)

// sweep finds the workspaces that nobody needs any more. What to remove follows from the directories that are there and the
// cards' status, so that a restart forgets nothing. A parent's files stay until its children, who may read them, have ended
// too, and are looked at again whenever a card stops running. Under the lock a scratch directory is only renamed, which no
// claim can come between; it is removed beside the ticks.
func (d *Dispatcher) sweep(ctx context.Context, b *board, running []kanban.Running, over map[kanban.RunID]bool, p *pass) {
	now, ended := map[string]bool{}, len(over) > 0
	for _, row := range running {
		if !over[row.Run.ID] {
			now[row.Task.ID] = true
		}
	}
	for task := range b.sweeper.running {
		ended = ended || !now[task]
	}
	b.sweeper.running = now
	if every := b.sweeper.every(); b.sweeper.busy || !ended && p.now.Sub(b.sweeper.at) < every {
		return
	}
	b.sweeper.at = p.now
	gone, err := d.setAside(ctx, b)
	if err != nil {
		b.stay("", "workspaces cannot be swept: "+err.Error(), p.now)
	}
	trees := d.leavingTrees(ctx, b, p.now)
	if len(gone) == 0 && len(trees) == 0 {
		return
	}
	b.sweeper.busy = true
	handle := b.handle
	p.started.Add(1)
	d.watchers.Go(func() {
		defer p.started.Done()
		life, cancel := d.untilClosing(ctx)
		defer cancel()
		d.removeAside(life, b, handle, gone)
		kept := d.removeTrees(life, b, handle, trees)
		d.mu.Lock()
		defer d.mu.Unlock()
		b.sweeper.busy = false
		for task, why := range kept {
			b.stay(task, why, time.Now())
		}
	})
}

// untilClosing is a context for what goes on beside the ticks: it outlives the tick and ends with the dispatcher.
func (d *Dispatcher) untilClosing(ctx context.Context) (context.Context, context.CancelFunc) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-d.closing:
			cancel()
		case <-life.Done():
		}
	}()
	return life, cancel
}

// setAside renames the scratch directories that may go, and gives them with those that an earlier process left renamed.
func (d *Dispatcher) setAside(ctx context.Context, b *board) (gone []string, err error) {
	b.sweeper.waiting = false
	dir, err := enclosure.Open(d.o.Root.WorkspacesDir(b.slug))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := os.ReadDir(dir.Path())
	if err != nil {
		return nil, err
	}
	var tasks []string
	for _, e := range entries {
		if _, ok := enclosure.WasAside(e.Name()); ok {
			gone = append(gone, e.Name())
		} else if worker.CheckID(e.Name()) == nil && !b.sweeper.running[e.Name()] && !d.lives(b.slug, e.Name()) {
			tasks = append(tasks, e.Name())
		}
	}
	leaving, err := b.handle.LeavingScratch(ctx, tasks...)
	b.sweeper.waiting = len(leaving) < len(tasks)
	for _, l := range leaving {
		aside, err := dir.SetAside(l.Task)
		if err != nil {
			b.stay(l.Task, err.Error(), time.Now())
			continue
		}
		gone = append(gone, aside)
	}
	return gone, err
}

func (d *Dispatcher) lives(slug kanban.Slug, task string) bool {
	for _, w := range d.workers {
		if w.board == slug && w.task == task && w.exit == nil {
			return true
		}
	}
	return false
}

// removeAside removes what was set aside. What nobody declared is told in the card's history before it goes.
func (d *Dispatcher) removeAside(ctx context.Context, b *board, handle *kanban.Board, gone []string) {
	dir, err := enclosure.Open(d.o.Root.WorkspacesDir(b.slug))
	if err != nil {
		return // it was there a moment ago; the next sweep says why
	}
	defer dir.Close()
	for _, aside := range gone {
		if ctx.Err() != nil {
			return
		}
		task, _ := enclosure.WasAside(aside)
		path := d.o.Root.WorkspaceDir(b.slug, task)
		if !d.noteDiscarded(ctx, b, handle, dir, task, aside, path) {
			continue // its history cannot be written now; the next sweep finds it
		}
		if err := dir.RemoveName(aside); err != nil {
			b.log.Warn("workspace stays", "task", task, "path", path, "error", err)
			continue
		}
		b.log.Debug("workspace removed", "task", task, "path", path)
	}
}

// noteDiscarded tells a card's history what its workspace held and nobody declared. A card that is gone has none.
func (d *Dispatcher) noteDiscarded(ctx context.Context, b *board, handle *kanban.Board, dir *enclosure.Dir, task, aside, path string) bool {
	declared, err := handle.Declared(ctx, task)
	if errors.Is(err, kanban.ErrNotFound) {
		return true
	}
	if err != nil {
		return false
	}
	contents := dir.Measure(aside, func(file string) bool { return declared[file] })
	noted, err := handle.NoteDiscarded(ctx, task, path, contents)
	if stored(err) != nil {
		return false
	}
	if noted {
		b.log.Warn("a finished card's workspace held files that no artifact names", "task", task, "path", path,
			"bytes", contents.Bytes, "files", contents.Files, "sample", contents.Sample)
	}
	return true
}

// leavingTrees gives the worktrees that may go, are there, and are not known to stay for now.
func (d *Dispatcher) leavingTrees(ctx context.Context, b *board, now time.Time) []kanban.Leaving {
	if d.o.Workspaces.Git == nil {
		return nil
	}
	all, err := b.handle.LeavingWorktrees(ctx)
	if err != nil {
		b.log.Debug("worktrees cannot be listed", "error", err)
		return nil
	}
	var list []kanban.Leaving
	for _, l := range all {
		if _, err := os.Lstat(l.Path); err != nil || now.Before(b.sweeper.stays[l.Task].again) || d.lives(b.slug, l.Task) {
			continue
		}
		list = append(list, l)
	}
	return list
}

// removeTrees removes worktrees and gives the reasons of those that stay. No start of the same board makes or takes a
// worktree meanwhile, and each card is looked at once more.
func (d *Dispatcher) removeTrees(ctx context.Context, b *board, handle *kanban.Board, trees []kanban.Leaving) map[string]string {
	kept := map[string]string{}
	for _, l := range trees {
		if ctx.Err() != nil {
			break
		}
		b.trees.Lock()
		left, err := handle.WorktreeLeft(ctx, l)
		if err == nil && left {
			err = d.o.Workspaces.RemoveWorktree(ctx, worker.Tree{Task: l.Task, Path: l.Path, Branch: l.Branch})
		}
		b.trees.Unlock()
		if err != nil {
			kept[l.Task] = err.Error()
		} else if left {
			b.log.Info("worktree removed", "task", l.Task, "path", l.Path)
		}
	}
	return kept
}

// stay remembers why a workspace is still there, and says it when that is news.
func (b *board) stay(task, why string, now time.Time) {
	old := b.sweeper.stays[task]
	if old.why != why {
		b.log.Warn("workspace of a finished card stays", "task", task, "error", why)
		old = stay{why: why}
	}
	old.wait = min(max(2*old.wait, stayFirst), stayLongest)
	old.again = now.Add(old.wait)
	if b.sweeper.stays == nil {
		b.sweeper.stays = map[string]stay{}
	}
	b.sweeper.stays[task] = old
}
