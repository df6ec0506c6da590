package kanban

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gatewayd/internal/enclosure"
	"gatewayd/internal/sqlite"
)

// DefaultRetention is how long the history and the logs of cards that are over are kept where nobody says otherwise.
const DefaultRetention = 30 * 24 * time.Hour

// GC says what of a board is old enough to go.
type GC struct {
	Events time.Duration // of cards that are done or archived
	Logs   time.Duration // of cards that are not running, by their last change
}

// Collected is what went.
type Collected struct {
	Events     int64 `json:"events"`
	Logs       int   `json:"logs"`
	Workspaces int   `json:"workspaces"` // scratch directories of archived cards
	Strays     int   `json:"strays"`     // files that a killed upload left and no row names
}

const (
	// A card's decomposition may happen once only, and its event is what tells that it did.
	deleteOldEvents = `DELETE FROM task_events WHERE id IN (SELECT e.id FROM task_events e JOIN tasks t ON t.id = e.task_id
    WHERE t.status IN ('done', 'archived') AND e.created_at < ? AND e.kind <> 'decomposed' LIMIT ?)`
	gcBatch = 1000 // events of one transaction: workers wait for it

	// strayAge is far above what an upload takes between its file and its row.
	strayAge = 24 * time.Hour
)

// GC removes old history, old logs, the scratch directories of archived cards, and files that belong to nobody. Ids of
// events are never used again, so that cursors hold. It blocks for as long as there is to remove, and lets writers pass
// between.
func (b *Board) GC(ctx context.Context, what GC) (Collected, error) {
	var done Collected
	if what.Events < 0 || what.Logs < 0 {
		return done, invalid("retention", "cannot be negative", "give 0 or more days")
	}
	now := time.Now()
	for _, step := range []func() error{
		func() (err error) { done.Events, err = b.forgetEvents(ctx, now.Add(-what.Events)); return err },
		func() (err error) { done.Logs, err = b.removeLogs(ctx, now.Add(-what.Logs)); return err },
		func() (err error) { done.Workspaces, err = b.removeWorkspaces(ctx); return err },
		func() (err error) { done.Strays, err = b.removeStrays(ctx, now.Add(-strayAge)); return err },
	} {
		if err := step(); err != nil {
			return done, err
		}
	}
	return done, nil
}

func (b *Board) forgetEvents(ctx context.Context, before time.Time) (all int64, err error) {
	for {
		var n int64
		err := b.write(ctx, "collect events", func(t *txn) (err error) {
			n, err = t.run("collect events", deleteOldEvents, before.Unix(), gcBatch)
			return err
		})
		if all += n; err != nil || n < gcBatch {
			return all, err
		}
	}
}

// ours opens a directory of the board; without one there is nothing to do.
func ours(path string, do func(dir *enclosure.Dir, entries []fs.DirEntry) error) error {
	dir, err := enclosure.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return diskProblem("directory "+path, "cannot be used", unchanged, err)
	}
	defer dir.Close()
	entries, err := os.ReadDir(path)
	if err != nil {
		return diskProblem("directory "+path, "cannot be listed", unchanged, err)
	}
	return do(dir, entries)
}

// removeLogs leaves the logs of running cards: their worker may be silent for long and still has the file open.
func (b *Board) removeLogs(ctx context.Context, before time.Time) (n int, err error) {
	running, err := b.idsIn(ctx, `SELECT id FROM tasks WHERE status = 'running'`)
	if err != nil {
		return 0, err
	}
	for id := range running {
		running[fileName(id)] = true
	}
	return n, ours(filepath.Join(filepath.Dir(b.attachments), "logs"), func(dir *enclosure.Dir, entries []fs.DirEntry) error {
		for _, e := range entries {
			card, _, _ := strings.Cut(e.Name(), ".log")
			info, err := dir.Root().Lstat(e.Name())
			if err != nil || !info.Mode().IsRegular() || !isLog(e.Name()) || running[card] || info.ModTime().After(before) {
				continue
			}
			if err := dir.Root().Remove(e.Name()); err != nil {
				return diskProblem("log "+e.Name(), "cannot be removed", "what was removed before it is gone", err)
			}
			n++
		}
		return nil
	})
}

// removeWorkspaces takes the scratch directories of archived cards that no open card needs.
func (b *Board) removeWorkspaces(ctx context.Context) (n int, err error) {
	archived, err := b.idsIn(ctx, `SELECT t.id FROM tasks t WHERE t.status = 'archived' AND t.workspace_kind = 'scratch' AND`+whereLeft)
	if err != nil {
		return 0, err
	}
	return n, ours(b.workspaces, func(dir *enclosure.Dir, entries []fs.DirEntry) error {
		for _, e := range entries {
			if !archived[e.Name()] {
				continue
			}
			if err := dir.RemoveName(e.Name()); err != nil {
				b.log.Warn("workspace stays", "task", e.Name(), "error", err)
				continue
			}
			n++
		}
		return nil
	})
}

// removeStrays takes the files of attachments that no row names: of an upload that was cut off before its row.
func (b *Board) removeStrays(ctx context.Context, before time.Time) (n int, err error) {
	rows, err := b.allAttachments(ctx)
	if err != nil {
		return 0, err
	}
	return n, ours(b.attachments, func(dir *enclosure.Dir, entries []fs.DirEntry) error {
		named := map[string]bool{}
		for _, row := range rows {
			if name, err := dir.Name(row.path); err == nil {
				named[name] = true
			}
		}
		for _, e := range entries {
			if !e.IsDir() {
				continue
			}
			files, err := os.ReadDir(filepath.Join(dir.Path(), e.Name()))
			if err != nil {
				continue
			}
			for _, f := range files {
				name := filepath.Join(e.Name(), f.Name())
				info, err := dir.Root().Lstat(name)
				if err == nil && info.Mode().IsRegular() && !named[name] && info.ModTime().Before(before) && dir.Root().Remove(name) == nil {
					n++
				}
			}
			_ = dir.Root().Remove(e.Name()) // an empty one only
		}
		return nil
	})
}

func (b *Board) idsIn(ctx context.Context, sql string) (map[string]bool, error) {
	ids := map[string]bool{}
	err := b.read(ctx, func(c *sqlite.Conn) error {
		list, err := texts(c, sql)
		for _, id := range list {
			ids[id] = true
		}
		return err
	})
	return ids, err
}
