package dispatch

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
	"gatewayd/reaper"
)

// player is as much of a test as a process that plays the daemon needs.
type player struct{ testing.TB }

func (player) Helper()        {}
func (player) Cleanup(func()) {}
func (player) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(3)
}

// deadly is a launcher in whose process the power fails at a chosen point.
type deadly struct {
	worker.Launcher
	point string
}

func (l deadly) Launch(ctx context.Context, job worker.Job) (worker.Running, error) {
	die(l.point == "claimed")
	r, err := l.Launcher.Launch(ctx, job)
	die(l.point == "started")
	return r, err
}

func die(now bool) {
	if now {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// playDaemon is a daemon that dispatches once and is killed at the point it is told.
func playDaemon(point string) {
	if n, ok := strings.CutPrefix(point, "step "); ok {
		playStep(n, false)
	}
	if n, ok := strings.CutPrefix(point, "end "); ok {
		playStep(n, true)
	}
	h := openHouse(player{}, os.Getenv("PLAY_HOME"), &logBuffer{})
	h.config = playSettings(h.dir)
	switch point {
	case "born":
		h.keepersKill(os.Getpid())
	case "program": // the worker's first act is to kill the daemon
		h.config.Lanes["long"].Env["DAEMON"] = strconv.Itoa(os.Getpid())
	}
	if point == "join" {
		join(h)
	}
	d := h.dispatcher(func(o *Options) { o.Launcher = deadly{h.local, point} })
	if _, err := d.Tick(context.Background()); err != nil {
		player{}.Fatal(err)
	}
	if point == "ended" {
		for _, w := range d.workers {
			<-w.proc.Done()
		}
	}
	die(true)
}

func playSettings(dir string) config.Kanban {
	c := settings()
	c.CrashGrace = 0
	pids := map[string]string{"PIDS": filepath.Join(dir, "pids")}
	c.Lanes["long"] = config.Lane{Argv: []string{"sh", "-c", `echo $$ >> "$PIDS"; [ -z "$DAEMON" ] || kill -9 "$DAEMON"; exec sleep 600`}, Env: maps.Clone(pids)}
	c.Lanes["short"] = config.Lane{Argv: []string{"sh", "-c", `echo $$ >> "$PIDS"; echo all good`}, Env: pids}
	return c
}

// keepersKill has each keeper kill the daemon before it reads what it is to start.
func (h *house) keepersKill(daemon int) {
	exe, err := os.Executable()
	must(h.t, err)
	script := filepath.Join(h.dir, "keeper")
	must(h.t, os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nkill -9 %d\nexec %q \"$@\"\n", daemon, exe), 0o700))
	h.reaper, err = reaper.New(reaper.Options{Dir: filepath.Join(h.dir, "records"), Exe: script, Spares: -1})
	must(h.t, err)
	h.local.Reaper = h.reaper
}

func play(t *testing.T, dir, point string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PLAY_DAEMON="+point, "PLAY_HOME="+dir)
	out, err := cmd.CombinedOutput()
	if state, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || state.Signal() != syscall.SIGKILL {
		t.Fatalf("the daemon was not killed at %s: %v\n%s", point, err, out)
	}
}

func TestADaemonKilledAtAnyPointLeavesALegalCardAndOneWorkerAtMost(t *testing.T) {
	for point, want := range map[string]struct {
		lane   string
		starts int // programs started in both lives together
		runs   int
	}{
		"claimed":  {"long", 1, 2},
		"born":     {"long", 1, 2},
		"program":  {"long", 1, 1},
		"started":  {"long", 1, 1},
		"recorded": {"long", 1, 1},
		"ended":    {"short", 1, 1},
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.config = playSettings(h.dir)
			b := h.board(kanban.DefaultSlug)
			id := card(t, b, want.lane)
			play(t, h.dir, point)
			if s := status(t, b, id); s != kanban.StatusRunning {
				t.Fatalf("after the kill the card is %s", s)
			}
			d := h.dispatcher()
			settled := func() bool {
				task, err := b.Task(t.Context(), id)
				must(t, err)
				if want.lane == "short" {
					return task.Status == kanban.StatusDone
				}
				return task.Status == kanban.StatusRunning && task.WorkerPID != 0 && procfs.LivesAs(task.WorkerPID, task.WorkerStarted) && len(d.Status().Boards) > 0 && d.Status().InProgress == 1
			}
			tickUntil(t, d, "the card to go on", settled)
			detail, err := b.Show(t.Context(), id)
			must(t, err)
			pids := lines(filepath.Join(h.dir, "pids"))
			wait(t, "the program to be started", func() bool { pids = lines(filepath.Join(h.dir, "pids")); return len(pids) >= want.starts })
			if len(pids) != want.starts || len(detail.Runs) != want.runs || detail.Task.ConsecutiveFailures != 0 {
				t.Errorf("%d programs, %d runs, %d failures\n%s", len(pids), len(detail.Runs), detail.Task.ConsecutiveFailures, h.log.text())
			}
		})
	}
}

func TestAKeeperKilledWhileTheDaemonWasAwayIsACrash(t *testing.T) {
	h := newHouse(t)
	h.config = playSettings(h.dir)
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "long")
	play(t, h.dir, "recorded")
	records, err := h.reaper.Records()
	must(t, err)
	if len(records) != 1 {
		t.Fatalf("%d records", len(records))
	}
	must(t, syscall.Kill(records[0].Keeper.PID, syscall.SIGKILL))
	wait(t, "the keeper's end", func() bool { return !records[0].Keeper.Alive() })
	d := h.dispatcher()
	r := tickUntil(t, d, "the crash to be seen", func() bool { return events(t, b, id, kanban.EventCrashed) == 1 })
	if len(r.Crashed) != 1 {
		t.Errorf("%+v", r)
	}
	if left, err := procfs.Tagged("GATEWAYD_KEEPER", records[0].ID); err != nil || len(left) > 0 {
		t.Errorf("the lost keeper's worker lives on: %v %v", left, err)
	}
}

// join dispatches beside another process until every card of the board is done.
func join(h *house) {
	b, err := kanban.Open(context.Background(), kanban.Options{Path: h.root.DBPath(kanban.DefaultSlug)})
	must(player{}, err)
	h.config.MaxInProgress = 4
	fmt.Println("ready")
	tickUntil(player{}, h.dispatcher(), "all cards", allDone(player{}, b))
	os.Exit(0)
}

func allDone(t testing.TB, b *kanban.Board) func() bool {
	return func() bool {
		stats, err := b.Stats(context.Background())
		must(t, err)
		return stats.ByStatus["ready"]+stats.ByStatus["running"] == 0
	}
}

func TestTwoDispatchersOnOneRootStartEachCardOnce(t *testing.T) {
	h := newHouse(t)
	h.config = playSettings(h.dir)
	h.config.MaxInProgress = 4
	b := h.board(kanban.DefaultSlug)
	const cards = 30
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "PLAY_DAEMON=join", "PLAY_HOME="+h.dir)
	var ids []string
	for range cards {
		ids = append(ids, card(t, b, "short"))
	}
	out, err := other.StdoutPipe()
	must(t, err)
	other.Stderr = os.Stderr
	must(t, other.Start())
	_, err = out.Read(make([]byte, 16))
	must(t, err)
	sum := tickUntil(t, h.dispatcher(), "all cards", allDone(t, b))
	must(t, other.Wait())
	for _, id := range ids {
		if s, n, c := status(t, b, id), events(t, b, id, "spawned"), events(t, b, id, kanban.EventCompleted); s != kanban.StatusDone || n != 1 || c != 1 {
			t.Errorf("card %s is %s, was started %d times and completed %d times", id, s, n, c)
		}
	}
	if pids := lines(filepath.Join(h.dir, "pids")); len(pids) != cards {
		t.Errorf("%d programs ran for %d cards", len(pids), cards)
	}
	t.Logf("this process started %d of %d cards", len(sum.Spawned), cards)
}

func TestOfTwoDispatchersOneLeadsAndTheOtherTakesOver(t *testing.T) {
	h := newHouse(t)
	h.config.Interval = 50 * time.Millisecond
	b := h.board(kanban.DefaultSlug)
	first, second := h.dispatcher(), h.dispatcher()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- first.Run(ctx) }()
	wait(t, "the first to lead", func() bool { return first.Status().Lock.Ours })
	go func() { ended <- second.Run(t.Context()) }()
	wait(t, "the second to follow", func() bool { return second.Status().Outside != nil })
	if st := second.Status(); st.Outside.Reason != NotLeader || st.Lock.Ours || st.Lock.PID != os.Getpid() || st.Dispatching {
		t.Errorf("%+v", st)
	}
	id := card(t, b, "ok")
	wait(t, "the card", isStatus(t, b, id, kanban.StatusDone))
	if _, err := second.Now(t.Context()); !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("asked for a tick the follower answers %v", err)
	}
	if n := second.Status().Ticks; n != 0 {
		t.Errorf("the follower ticked %d times", n)
	}
	cancel()
	must(t, <-ended)
	report, err := second.Now(t.Context())
	if err != nil || report.Boards != 1 || !second.Status().Lock.Ours {
		t.Errorf("asked when nobody leads it answers %+v, %v", report, err)
	}
	id = card(t, b, "ok")
	wait(t, "the second card", isStatus(t, b, id, kanban.StatusDone))
}
