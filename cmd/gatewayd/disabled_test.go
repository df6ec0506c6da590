package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"gatewayd/config"
	"gatewayd/internal/problem"
	"gatewayd/kanban"
	"gatewayd/kanban/dispatch"
	"gatewayd/kanban/worker"
	"gatewayd/reaper"
	"gatewayd/registry"
)

// disabledBoard is a daemon whose dispatcher has met a file that is no database. opened counts opens of boards.
func disabledBoard(t *testing.T, log *slog.Logger) (d *daemon, slug kanban.Slug, opened *atomic.Int64) {
	t.Helper()
	root, err := kanban.OpenRoot(t.TempDir())
	need(t, err)
	t.Cleanup(func() { root.Close() })
	info, err := root.Create("bad", kanban.Meta{})
	need(t, err)
	need(t, os.WriteFile(info.Path, bytes.Repeat([]byte("this is no database "), 500), 0o600))
	reaps, err := reaper.New(reaper.Options{Dir: t.TempDir(), Spares: -1, Log: quiet()})
	need(t, err)
	lanes, err := worker.NewLanes(config.Kanban{}, "")
	need(t, err)
	d = &daemon{root: root, log: log, passedOver: map[kanban.Slug]string{}}
	opened = new(atomic.Int64)
	d.boards = registry.For(registry.New(registry.Options{Log: quiet()}), func(ctx context.Context, path string) (*kanban.Board, error) {
		opened.Add(1)
		return kanban.Open(ctx, kanban.Options{Path: path, Slug: "bad", Log: quiet()})
	})
	d.dispatcher, err = dispatch.New(dispatch.Options{
		Root: root, Acquire: d.acquireBoard, Launcher: &worker.Local{Reaper: reaps, RunsDir: t.TempDir()}, Lanes: lanes, RunsDir: t.TempDir(), Log: quiet(),
	})
	need(t, err)
	_, err = d.dispatcher.Tick(t.Context())
	need(t, err)
	return d, "bad", opened
}

func need(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Each open of a damaged file may change it, and costs a person the state that a repair needs.
func TestNobodyOpensABoardThatIsDisabled(t *testing.T) {
	var said bytes.Buffer
	d, slug, opened := disabledBoard(t, slog.New(slog.NewTextHandler(&said, nil)))
	before := opened.Load()
	if before == 0 {
		t.Fatal("the dispatcher has not met it")
	}
	_, _, err := boardDoor{d.root, d}.Acquire(t.Context(), slug)
	var hold dispatch.Hold
	for _, b := range d.dispatcher.Status().Boards {
		if b.Slug == slug {
			hold = *b.Hold
		}
	}
	if !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), hold.Detail) || !strings.Contains(err.Error(), hold.Remedy) {
		t.Errorf("the API says: %v\nthe dispatcher: %+v", err, hold)
	}
	for range 3 {
		need(t, d.backupBoard(t.Context(), slug, t.TempDir(), 1))
	}
	if n := strings.Count(said.String(), "not backed up"); n != 1 {
		t.Errorf("said %d times, want once:\n%s", n, said.String())
	}
	if n := opened.Load() - before; n != 0 {
		t.Errorf("the file was opened %d times more", n)
	}
	need(t, os.WriteFile(d.root.DBPath(slug), []byte("another one, no better"), 0o600))
	if _, _, err := (boardDoor{d.root, d}).Acquire(t.Context(), slug); err == nil || opened.Load() == before {
		t.Errorf("a file that changed is not looked at: %v", err)
	}
}
