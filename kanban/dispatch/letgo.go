package dispatch

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"gatewayd/kanban"
)

// LetGo gives back what is held of a board that is about to be archived or deleted. Until TakeBack nothing opens it again here,
// and Disabled keeps everybody else in this process from it. It waits for a tick that is under way. No card of the board may
// be running, so the caller holds the lock of its ticks.
func (d *Dispatcher) LetGo(slug kanban.Slug) {
	d.going.Store(slug, d.o.Root.DBPath(slug))
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.boards[slug]; b != nil {
		b.close()
	}
}

// TakeBack ends LetGo: a board that is still there is served again. Of one that has left, workers may live whose run was over;
// nobody looks after them any more, so they are ended.
func (d *Dispatcher) TakeBack(slug kanban.Slug) {
	path, was := d.going.LoadAndDelete(slug)
	if !was {
		return
	}
	if _, err := os.Stat(path.(string)); errors.Is(err, fs.ErrNotExist) {
		d.orphan(slug)
	}
	d.Wake(slug)
}

func (d *Dispatcher) orphan(slug kanban.Slug) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.workers {
		if w.board == slug {
			w.orphan = true
			w.stop(RunOver, time.Now())
		}
	}
}

// bury forgets the orphans that have ended.
func (d *Dispatcher) bury() {
	for id, w := range d.workers {
		if !w.orphan || w.exit == nil {
			continue
		}
		delete(d.workers, id)
		if err := d.o.Launcher.Forget(id); err != nil {
			d.log.Warn("record of an ended worker stays", "board", w.board, "task", w.task, "run", w.run, "error", err)
		}
	}
}
