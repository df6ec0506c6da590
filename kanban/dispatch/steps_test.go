package dispatch

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gatewayd/internal/procfs"
	"gatewayd/internal/sqlite"
	"gatewayd/internal/sqlite/steps"
	"gatewayd/kanban"
	"gatewayd/reaper"
)

// playStep is a daemon that halts ahead of the n-th change to a file that its first tick makes, or, if atEnd, the tick
// after its workers have ended, and says what it is.
func playStep(n string, atEnd bool) {
	at, err := strconv.ParseInt(n, 10, 64)
	must(player{}, err)
	stop := steps.Before(at, func(sql string) { fmt.Println("at", sql) })
	h := openHouse(player{}, os.Getenv("PLAY_HOME"), &logBuffer{})
	h.config = playSettings(h.dir)
	d := h.dispatcher()
	must(player{}, d.openAll())
	if atEnd {
		_, err = d.Tick(context.Background())
		must(player{}, err)
		for _, w := range d.workers {
			<-w.proc.Done()
		}
	}
	stop.Arm()
	_, err = d.Tick(context.Background())
	must(player{}, err)
	fmt.Println("done")
	select {}
}

// openAll has the boards open before anything is counted.
func (d *Dispatcher) openAll() error {
	infos, err := d.o.Root.Boards()
	if err != nil {
		return err
	}
	for _, info := range infos {
		_, _, err := d.o.Acquire(context.Background(), info.Path)
		if err != nil {
			return err
		}
	}
	return nil
}

// cutTick kills a daemon ahead of the n-th change of its tick, and gives what that was, or "done".
func cutTick(t *testing.T, dir, tick string, n int) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("PLAY_DAEMON=%s %d", tick, n), "PLAY_HOME="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	lines.Scan()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	said := lines.Text()
	if said != "done" && !strings.HasPrefix(said, "at ") {
		t.Fatalf("before change %d: %q", n, said)
	}
	said = strings.TrimPrefix(said, "at ")
	return said[:min(len(said), 60)]
}

// neighbour is another daemon's home on the same root. shared says whether it finds the records of the root's workers.
func neighbour(t testing.TB, h *house, shared bool) *house {
	t.Helper()
	other := openHouse(t, t.TempDir(), h.log)
	other.root, other.config = h.root, h.config
	if shared {
		other.share(h.dir)
	}
	return other
}

// share has the house's workers on record below another directory, as daemons on one root do.
func (h *house) share(root string) {
	h.t.Helper()
	var err error
	h.reaper, err = reaper.New(reaper.Options{Dir: filepath.Join(h.dir, "records"), Shared: filepath.Join(root, "records"), Spares: -1})
	must(h.t, err)
	h.local.Reaper, h.local.RunsDir = h.reaper, filepath.Join(root, "runs")
}

// claimSteps is the first change after a claim: from there on it matters who comes next.
const claimSteps = 6

// Whatever change to the board the power fails ahead of, the next daemon finds a legal board and the card's worker, or
// starts one: never a second one beside the first. That holds for the same home, for another one on the same root, and
// for one that finds no record of what the first has started.
func TestADaemonKilledBeforeAnyStatementLeavesOneWorkerAtMost(t *testing.T) {
	for next, from := range map[string]int{"same home": 1, "another home": claimSteps, "records lost": claimSteps} {
		t.Run(next, func(t *testing.T) {
			t.Parallel()
			var cut []string
			for n := from; !slices.Contains(cut, "done") && !t.Failed(); n++ {
				t.Run(strconv.Itoa(n), func(t *testing.T) {
					h := newHouse(t)
					h.config = playSettings(h.dir)
					b := h.board(kanban.DefaultSlug)
					id := card(t, b, "long")
					said := cutTick(t, h.dir, "step", n)
					cut = append(cut, said)
					heir := h
					if next != "same home" {
						heir = neighbour(t, h, next == "another home")
					}
					takesOver(t, h, heir, b, id, said, next != "records lost")
				})
			}
			t.Logf("cut before %d changes", len(cut)-1)
			must := []string{"UPDATE tasks SET worker_pid", "UPDATE task_runs SET worker_pid", "INSERT INTO gw_runs", "COMMIT", "done"}
			if from == 1 {
				must = append(must, "INSERT INTO task_runs", "UPDATE tasks SET status = 'running'")
			}
			for _, start := range must {
				if !slices.ContainsFunc(cut, func(sql string) bool { return strings.HasPrefix(sql, start) }) {
					t.Errorf("it was never cut before %q: %q", start, cut)
				}
			}
		})
	}
}

// takesOver has the heir dispatch until the card has a worker that lives (and whose pid the board knows, where it can be
// known), and looks that it is the only one.
func takesOver(t *testing.T, h, heir *house, b *kanban.Board, id, said string, onRecord bool) {
	t.Helper()
	d := heir.dispatcher()
	tickUntil(t, d, "the card to be run after a kill before "+said, func() bool {
		task, err := b.Task(t.Context(), id)
		must(t, err)
		known := task.WorkerPID != 0 && procfs.LivesAs(task.WorkerPID, task.WorkerStarted)
		return task.Status == kanban.StatusRunning && (known || !onRecord) && len(lines(filepath.Join(h.dir, "pids"))) > 0
	})
	for range 2 {
		_, err := d.Tick(t.Context())
		must(t, err)
	}
	detail, err := b.Show(t.Context(), id)
	must(t, err)
	alive := 0
	for _, word := range lines(filepath.Join(h.dir, "pids")) {
		if pid, _ := strconv.Atoi(word); pid != 0 && procfs.Fingerprint(pid) != procfs.Unverified {
			alive++
		}
	}
	if started := len(lines(filepath.Join(h.dir, "pids"))); alive != 1 || started != 1 || len(detail.Runs) > 2 || detail.Task.ConsecutiveFailures != 0 {
		t.Errorf("killed before %q: %d programs live of %d that were started, %d runs, %d failures", said, alive, started, len(detail.Runs), detail.Task.ConsecutiveFailures)
	}
	legal(t, b)
}

// Whatever change the power fails ahead of while a worker's end is written down, the next daemon writes it down, once.
func TestADaemonKilledWhileItWritesAnEndLosesNoneAndTellsItOnce(t *testing.T) {
	t.Parallel()
	var cut []string
	for n := 1; !slices.Contains(cut, "done") && !t.Failed(); n++ {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			h := newHouse(t)
			h.config = playSettings(h.dir)
			b := h.board(kanban.DefaultSlug)
			id := card(t, b, "short")
			said := cutTick(t, h.dir, "end", n)
			cut = append(cut, said)
			d := h.dispatcher()
			tickUntil(t, d, "the end to be written after a kill before "+said, isStatus(t, b, id, kanban.StatusDone))
			for range 2 {
				_, err := d.Tick(t.Context())
				must(t, err)
			}
			detail, err := b.Show(t.Context(), id)
			must(t, err)
			keepers, err := b.Keepers(t.Context())
			must(t, err)
			left, _ := os.ReadDir(filepath.Join(h.dir, "records"))
			if len(detail.Runs) != 1 || detail.LatestSummary != "all good" || events(t, b, id, kanban.EventCompleted) != 1 || len(keepers) > 0 || len(left) > 0 {
				t.Errorf("killed before %q: runs %+v, summary %q, %d completions, unsettled %v, records %v", said, detail.Runs, detail.LatestSummary, events(t, b, id, kanban.EventCompleted), keepers, left)
			}
			legal(t, b)
		})
	}
	t.Logf("cut before %d changes", len(cut)-1)
	if !slices.ContainsFunc(cut, func(sql string) bool { return strings.HasPrefix(sql, "UPDATE gw_runs") }) {
		t.Errorf("it was never cut before the worker was struck off: %q", cut)
	}
}

// legal checks what must hold on a board whoever was killed in the middle of what.
func legal(t *testing.T, b *kanban.Board) {
	t.Helper()
	for what, sql := range map[string]string{
		"card whose current run is not open":  `SELECT count(*) FROM tasks t WHERE current_run_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM task_runs r WHERE r.id = t.current_run_id AND r.task_id = t.id AND r.ended_at IS NULL)`,
		"open run that is nobody's current":   `SELECT count(*) FROM task_runs r WHERE r.ended_at IS NULL AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.current_run_id = r.id)`,
		"running card without a whole claim":  `SELECT count(*) FROM tasks WHERE status = 'running' AND (current_run_id IS NULL OR claim_lock IS NULL OR claim_expires IS NULL)`,
		"claim on a card that does not run":   `SELECT count(*) FROM tasks WHERE status <> 'running' AND (claim_lock IS NOT NULL OR worker_pid IS NOT NULL OR current_run_id IS NOT NULL)`,
		"closed run without an outcome":       `SELECT count(*) FROM task_runs WHERE ended_at IS NOT NULL AND outcome IS NULL`,
		"run without exactly one claim event": `SELECT count(*) FROM task_runs r WHERE (SELECT count(*) FROM task_events e WHERE e.run_id = r.id AND e.kind = 'claimed') <> 1`,
	} {
		if n := count(t, b, sql); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
}

// count reads one number.
func count(t testing.TB, b *kanban.Board, sql string, args ...any) (n int) {
	t.Helper()
	must(t, b.File().Read(context.Background(), func(c *sqlite.Conn) error {
		_, err := c.Row(sql, args, &n)
		return err
	}))
	return n
}
