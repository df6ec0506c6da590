package dispatch

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
	"gatewayd/reaper"
	"gatewayd/registry"
)

func TestMain(m *testing.M) {
	reaper.Main()
	if stop := os.Getenv("PLAY_DAEMON"); stop != "" {
		playDaemon(stop)
	}
	flag.Set("test.parallel", "6") // they wait for workers' grace more than they work
	os.Exit(m.Run())
}

// logBuffer is a log that tests may read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

func (l *logBuffer) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// house is one home with boards, and what a daemon would hold.
type house struct {
	t      testing.TB
	dir    string
	root   *kanban.Root
	reg    *registry.Registry
	boards *registry.Kind[*kanban.Board]
	reaper *reaper.Reaper
	local  *worker.Local
	opens  func() int
	log    *logBuffer
	config config.Kanban
}

func settings() config.Kanban {
	c := config.Default().Kanban
	c.Lanes = map[string]config.Lane{
		"ok":    {Argv: []string{"sh", "-c", "echo working; echo all good"}},
		"fail":  {Argv: []string{"sh", "-c", "echo broken >&2; echo twice over; exit 3"}},
		"sleep": {Argv: []string{"sleep", "600"}, KillGrace: 200 * time.Millisecond},
		"limit": {Argv: []string{"sh", "-c", "exit 75"}},
		"gone":  {Argv: []string{"sh", "-c", "exit 78"}},
		"mute":  {Preset: "claude", Argv: []string{"sh", "-c", "exit 0"}},
	}
	return c
}

func newHouse(t testing.TB) *house { return openHouse(t, t.TempDir(), &logBuffer{}) }

func openHouse(t testing.TB, dir string, log *logBuffer) *house {
	t.Helper()
	h := &house{t: t, dir: dir, log: log, config: settings()}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	root, err := kanban.OpenRoot(dir)
	must(t, err)
	h.root = root
	h.reg = registry.New(registry.Options{Log: logger})
	var mu sync.Mutex
	opens := 0
	h.opens = func() int { mu.Lock(); defer mu.Unlock(); return opens }
	h.boards = registry.For(h.reg, func(ctx context.Context, path string) (*kanban.Board, error) {
		mu.Lock()
		opens++
		mu.Unlock()
		return kanban.Open(ctx, kanban.Options{Path: path, Slug: slugOf(root, path), Log: logger})
	})
	h.reaper, err = reaper.New(reaper.Options{Dir: filepath.Join(dir, "records"), Spares: -1, Log: logger})
	must(t, err)
	h.local = &worker.Local{Reaper: h.reaper, Environ: config.Environ{"PATH=/usr/bin:/bin"}, RunsDir: filepath.Join(dir, "runs")}
	t.Cleanup(h.end)
	return h
}

// end ends every worker of the house, and waits.
func (h *house) end() {
	records, _ := h.reaper.Records()
	for _, r := range records {
		if p, err := h.reaper.Adopt(r.ID); err == nil {
			p.Stop(0)
			<-p.Done()
		}
	}
	_ = h.reg.CloseAll(context.Background())
}

func slugOf(root *kanban.Root, path string) kanban.Slug {
	infos, _ := root.Boards()
	for _, info := range infos {
		if info.Path == path {
			return info.Slug
		}
	}
	return kanban.DefaultSlug
}

func (h *house) acquire(ctx context.Context, path string) (*kanban.Board, func(), error) {
	ref, err := h.boards.Acquire(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	b, ok := ref.Handle()
	if !ok {
		return nil, nil, fmt.Errorf("spent")
	}
	return b, ref.Release, nil
}

func (h *house) dispatcher(change ...func(*Options)) *Dispatcher {
	h.t.Helper()
	lanes, err := worker.NewLanes(h.config, "")
	must(h.t, err)
	o := Options{
		Root: h.root, Acquire: h.acquire, Launcher: h.local, Lanes: lanes, Config: h.config, Environ: h.local.Environ, Home: h.dir,
		Exe: "/usr/bin/false", RunsDir: h.local.RunsDir, Offline: func() bool { return true },
		Log: slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&o)
	}
	d, err := New(o)
	must(h.t, err)
	h.t.Cleanup(d.close)
	return d
}

// board makes a board of that name, with its file.
func (h *house) board(slug kanban.Slug) *kanban.Board {
	h.t.Helper()
	if slug != kanban.DefaultSlug {
		_, err := h.root.Create(slug, kanban.Meta{})
		must(h.t, err)
	}
	b, err := kanban.Open(context.Background(), kanban.Options{Path: h.root.DBPath(slug), Slug: slug, Create: true})
	must(h.t, err)
	h.t.Cleanup(func() { _ = b.Close() })
	return b
}

func card(t testing.TB, b *kanban.Board, lane string, change ...func(*kanban.NewTask)) string {
	t.Helper()
	n := kanban.NewTask{Title: "a card", Assignee: lane}
	for _, c := range change {
		c(&n)
	}
	task, err := b.Create(context.Background(), n)
	must(t, err)
	return task.ID
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tickUntil ticks until done says so. Between ticks it waits for a worker's end or a short moment, never for a
// fixed time.
func tickUntil(t testing.TB, d *Dispatcher, what string, done func() bool) Report {
	t.Helper()
	sum := Report{Held: map[Reason]int{}}
	deadline := time.After(patience)
	for {
		r, err := d.Tick(context.Background())
		must(t, err)
		sum = add(sum, r)
		if done() {
			return sum
		}
		select {
		case <-deadline:
			t.Fatalf("waited in vain for: %s", what)
		case <-d.wake:
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func add(a, b Report) Report {
	a.Reaped = append(a.Reaped, b.Reaped...)
	a.Spawned = append(a.Spawned, b.Spawned...)
	a.Completed = append(a.Completed, b.Completed...)
	a.Crashed = append(a.Crashed, b.Crashed...)
	a.TimedOut = append(a.TimedOut, b.TimedOut...)
	a.Stale = append(a.Stale, b.Stale...)
	a.Reclaimed = append(a.Reclaimed, b.Reclaimed...)
	a.RateLimited = append(a.RateLimited, b.RateLimited...)
	a.Violations = append(a.Violations, b.Violations...)
	a.SpawnFailed = append(a.SpawnFailed, b.SpawnFailed...)
	a.AutoBlocked = append(a.AutoBlocked, b.AutoBlocked...)
	a.Promoted = append(a.Promoted, b.Promoted...)
	a.Deferred = append(a.Deferred, b.Deferred...)
	a.Reconciled = append(a.Reconciled, b.Reconciled...)
	a.Adopted = append(a.Adopted, b.Adopted...)
	a.Disabled = append(a.Disabled, b.Disabled...)
	a.Failed = append(a.Failed, b.Failed...)
	return a
}

func status(t testing.TB, b *kanban.Board, id string) kanban.Status {
	t.Helper()
	task, err := b.Task(context.Background(), id)
	must(t, err)
	return task.Status
}

func isStatus(t testing.TB, b *kanban.Board, id string, want kanban.Status) func() bool {
	return func() bool { return status(t, b, id) == want }
}

// set changes a card's row as if time had passed or another program had written it.
func set(t testing.TB, b *kanban.Board, sql string, args ...any) {
	t.Helper()
	must(t, b.File().Write(context.Background(), sqlite.Op{Label: "test", Do: func(tx *sqlite.Tx) error {
		_, err := tx.Exec(sql, args...)
		return err
	}}))
}

func events(t testing.TB, b *kanban.Board, id, kind string) int {
	t.Helper()
	list, err := b.TaskEvents(context.Background(), id)
	must(t, err)
	n := 0
	for _, e := range list {
		if e.Kind == kind {
			n++
		}
	}
	return n
}
