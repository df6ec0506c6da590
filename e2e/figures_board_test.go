package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/sqlite"
	"gatewayd/internal/vigil"
	"gatewayd/kanban"
	"gatewayd/kanban/dispatch"
	"gatewayd/kanban/worker"
	"gatewayd/reaper"
)

// claimerEnv makes this test binary one of several processes that claim every card of a board.
const claimerEnv = "GATEWAYD_E2E_CLAIM_BOARD"

func figureBoard(t *testing.T, path string) *kanban.Board {
	t.Helper()
	b, err := kanban.Open(t.Context(), kanban.Options{Path: path, Slug: kanban.DefaultSlug, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// fillBoard writes cards without their histories: only the cards matter here.
func fillBoard(t *testing.T, b *kanban.Board, status string, n int) {
	t.Helper()
	err := b.File().Write(t.Context(), sqlite.Op{Label: "fill", Do: func(tx *sqlite.Tx) error {
		for i := range n {
			if _, err := tx.Exec("INSERT INTO tasks (id, title, status, assignee, created_at) VALUES (?, 'a card', ?, 'lane', 1)", fmt.Sprintf("t_%08x", i), status); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// claimFigures measures one claim against the disk, then four processes against each other on one board.
func claimFigures(t *testing.T) []figure {
	dir := t.TempDir()
	b := figureBoard(t, filepath.Join(dir, "one.db"))
	fillBoard(t, b, "ready", 600)
	floor, err := sqlite.NewFloor(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer floor.Close()
	var claims, syncs []float64
	for i := range 600 {
		claims = append(claims, micros(t, func() error {
			_, err := b.Claim(t.Context(), fmt.Sprintf("t_%08x", i), kanban.Claimer{})
			return err
		}))
		syncs = append(syncs, micros(t, floor.Overwrite))
	}
	rate, twice := claimRace(t, filepath.Join(dir, "four.db"), 4, 2000)
	return []figure{
		atMost("claim (CAS, run, event; FULL)", median(claims), "µs", "overwrite + fdatasync", median(syncs), 2.5),
		{Name: "claims by 4 processes", Value: rate, Unit: "/s", Limit: "the target", Ratio: rate / 800, Target: "≥ 800 /s", Met: rate >= 800},
		below("cards claimed twice by 4 processes", float64(twice), "cards", 0),
	}
}

// claimRace lets processes claim all cards of one board, and reads from the file who got what.
func claimRace(t *testing.T, path string, processes, cards int) (rate float64, twice int) {
	b := figureBoard(t, path)
	fillBoard(t, b, "ready", cards)
	began := time.Now()
	var running []*exec.Cmd
	for range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), claimerEnv+"="+path)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
	}
	for _, cmd := range running {
		if err := cmd.Wait(); err != nil {
			t.Fatal("a claimer failed:", err)
		}
	}
	took := time.Since(began).Seconds()
	if got := len(foreign(t, path, "SELECT DISTINCT task_id FROM task_runs")); got != cards {
		t.Errorf("%d of %d cards were claimed", got, cards)
	}
	return float64(cards) / took, len(foreign(t, path, "SELECT task_id FROM task_runs GROUP BY task_id HAVING count(*) > 1"))
}

// claimAll is a claimer process: it tries every card, and loses most of the races.
func claimAll(path string) int {
	ctx := context.Background()
	b, err := kanban.Open(ctx, kanban.Options{Path: path, Slug: kanban.DefaultSlug})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer b.Close()
	for {
		ready, err := b.List(ctx, kanban.Filter{Status: kanban.StatusReady, Limit: 50})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if len(ready) == 0 {
			return 0
		}
		offset := os.Getpid() % len(ready)
		for i := range ready {
			_, _ = b.Claim(ctx, ready[(i+offset)%len(ready)].ID, kanban.Claimer{}) // losing a race is what is measured
		}
	}
}

// tickFigures measures the tick of a wake over 100 boards of 1,000 cards.
func tickFigures(t *testing.T) []figure {
	d, boards := manyBoards(t, 100, 1000)
	look := func() float64 {
		return micros(t, func() error { _, err := d.Look(t.Context()); return err }) / 1e3
	}
	vigil.LetPass(5*time.Second, "a directory that changed a moment ago is read again, because its time stamp is coarse")
	var quiet, all []float64
	for range 200 {
		quiet = append(quiet, look())
	}
	for i := range 15 {
		for _, b := range boards {
			err := b.File().Write(t.Context(), sqlite.Op{Label: "touch", Do: func(tx *sqlite.Tx) error {
				_, err := tx.Exec("UPDATE tasks SET priority = ? WHERE id = 't_00000001'", i+1)
				return err
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, look())
	}
	return []figure{
		below("tick, 100 boards × 1,000 cards, nothing changed", median(quiet), "ms", 1.2),
		below("tick, 100 boards × 1,000 cards, all changed", median(all), "ms", 6),
	}
}

func manyBoards(t *testing.T, boards, cards int) (*dispatch.Dispatcher, []*kanban.Board) {
	home := t.TempDir()
	root, err := kanban.OpenRoot(home)
	if err != nil {
		t.Fatal(err)
	}
	bySlug := map[string]*kanban.Board{}
	var list []*kanban.Board
	for i := range boards {
		slug := kanban.Slug(fmt.Sprintf("board-%03d", i))
		info, err := root.Create(slug, kanban.Meta{})
		if err != nil {
			t.Fatal(err)
		}
		b := figureBoard(t, info.Path)
		fillBoard(t, b, "done", cards)
		bySlug[info.Path], list = b, append(list, b)
	}
	cfg := config.Default().Kanban
	lanes, err := worker.NewLanes(cfg, "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := reaper.New(reaper.Options{Dir: filepath.Join(home, "keepers"), Spares: -1})
	if err != nil {
		t.Fatal(err)
	}
	d, err := dispatch.New(dispatch.Options{
		Root: root, Lanes: lanes, Config: cfg, Home: home, Launcher: &worker.Local{Reaper: r, RunsDir: filepath.Join(home, "runs")},
		Acquire: func(_ context.Context, path string) (*kanban.Board, func(), error) {
			if b, ok := bySlug[path]; ok {
				return b, func() {}, nil
			}
			return nil, nil, fmt.Errorf("no board at %s", path)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := d.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return d, list
}

// startLatencyFigures measures from the creation of a card until its worker's program runs and says so on a FIFO.
func startLatencyFigures(t *testing.T) []figure {
	home := newHome(t, "")
	fifo := filepath.Join(home, "fifo")
	yaml := fmt.Sprintf("model: {provider: offline}\nkanban:\n  max_in_progress: 0\n  lanes:\n    lane: {preset: command, argv: [sh, -c, 'echo runs > %s']}\n", fifo)
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfifo", fifo).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v %s", err, out)
	}
	if _, errs, code := cli(t, home, "kanban", "boards", "create", "default"); code != 0 {
		t.Fatal(errs)
	}
	pipe, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	lines := bufio.NewReader(pipe)
	d := start(t, home)
	defer d.stop()
	b := figureBoard(t, filepath.Join(home, "kanban.db"))

	measure := func(create func(title string) error) float64 {
		var took []float64
		for i := range 100 {
			took = append(took, micros(t, func() error {
				if err := create("card " + strconv.Itoa(i)); err != nil {
					return err
				}
				_, err := lines.ReadString('\n')
				return err
			})/1e3)
		}
		return quantile(took, 0.99)
	}
	inside := measure(func(title string) error {
		return d.try("POST", "/api/boards/default/tasks", map[string]string{"title": title, "assignee": "lane"}, nil)
	})
	outside := measure(func(title string) error {
		_, err := b.Create(t.Context(), kanban.NewTask{Title: title, Assignee: "lane"})
		return err
	})
	return []figure{
		below("card created in the daemon → worker runs, p99", inside, "ms", 60),
		below("card created by another process → worker runs, p99", outside, "ms", 400),
	}
}
