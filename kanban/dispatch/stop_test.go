package dispatch

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/procfs"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

// stubborn ignores TERM, and so do its children, one of which left the session and another one its parents.
const stubborn = `trap '' TERM; (trap '' TERM; sleep 600) & (trap '' TERM; setsid sleep 600) & (setsid sh -c "trap '' TERM; sleep 600 &") & echo $$ >> "$PIDS"; wait; sleep 600`

func TestAReclaimedTreeIsGoneBeforeItsCardStartsAgain(t *testing.T) {
	h := newHouse(t)
	pids := filepath.Join(h.dir, "pids")
	h.config.Lanes["stubborn"] = config.Lane{
		Preset: "claude", Argv: []string{"sh", "-c", stubborn}, Env: map[string]string{"PIDS": pids}, KillGrace: 100 * time.Millisecond,
	}
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "stubborn")
	d := h.dispatcher()
	tickUntil(t, d, "the first worker", func() bool { return len(lines(pids)) == 1 })
	first := onlyWorker(t, d)
	set(t, b, `UPDATE tasks SET claim_expires = 1, last_heartbeat_at = 1`)
	r := tickUntil(t, d, "the second worker", func() bool {
		if n := len(lines(pids)); n == 2 {
			if left, err := procfs.Tagged("GATEWAYD_KEEPER", first.id); err != nil || len(left) > 0 {
				t.Errorf("a second worker runs beside %v of the first (%v)", left, err)
			}
			return true
		}
		return false
	})
	if len(r.Reclaimed) != 1 || len(r.Spawned) != 1 {
		t.Errorf("%+v", r)
	}
	task, err := b.Task(t.Context(), id)
	must(t, err)
	if task.ConsecutiveFailures != 1 {
		t.Errorf("%d failures: a reclaimed card that is not counted loops for ever", task.ConsecutiveFailures)
	}
}

func lines(path string) []string {
	data, _ := os.ReadFile(path)
	return strings.Fields(string(data))
}

// immortal is a worker that does not end when it is asked to.
type immortal struct {
	worker.Running
	stops *atomic.Int32
}

func (i immortal) Stop(time.Duration) { i.stops.Add(1) }

type immortals struct {
	worker.Launcher
	stops atomic.Int32
}

func (l *immortals) Launch(ctx context.Context, job worker.Job) (worker.Running, error) {
	r, err := l.Launcher.Launch(ctx, job)
	return immortal{r, &l.stops}, err
}

func TestAWorkerThatSurvivesItsEndKeepsItsCard(t *testing.T) {
	h := newHouse(t)
	h.config.CrashGrace = 0
	h.config.StaleTimeout = time.Hour
	h.config.Lanes["agentlike"] = config.Lane{Preset: "claude", Argv: []string{"sleep", "600"}, KillGrace: time.Millisecond}
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "agentlike")
	im := &immortals{Launcher: h.local}
	d := h.dispatcher(func(o *Options) { o.Launcher = im })
	tickUntil(t, d, "the worker", isStatus(t, b, id, kanban.StatusRunning))
	set(t, b, `UPDATE task_runs SET started_at = started_at - 7200`)
	w := onlyWorker(t, d)
	// The run's start is part of the keeper's name; the row was moved back, so the worker is found by its new name.
	d.mu.Lock()
	delete(d.workers, w.id)
	w.id = worker.KeeperID(h.root.DBPath(kanban.DefaultSlug), int64(w.run), w.started.Unix()-7200)
	d.workers[w.id] = w
	d.mu.Unlock()
	tickUntil(t, d, "the stop", func() bool { return im.stops.Load() == 1 })
	d.mu.Lock()
	w.asked = w.asked.Add(-time.Minute)
	d.mu.Unlock()
	set(t, b, `UPDATE tasks SET claim_expires = 1`)
	r := tickUntil(t, d, "the deferral", func() bool { return events(t, b, id, "reclaim_deferred") == 1 })
	if len(r.Deferred) != 1 || len(r.Spawned) != 0 || status(t, b, id) != kanban.StatusRunning || im.stops.Load() != 1 {
		t.Errorf("%+v, %d stops", r, im.stops.Load())
	}
	task, err := b.Task(t.Context(), id)
	must(t, err)
	if left := time.Until(time.Unix(task.ClaimExpires, 0)); left < 60*time.Second || left > 121*time.Second {
		t.Errorf("the claim is kept for %v", left)
	}
}

func TestACardIsNotStartedBesideTheWorkerOfItsLastRun(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "sleep")
	im := &immortals{Launcher: h.local}
	d := h.dispatcher(func(o *Options) { o.Launcher = im })
	tickUntil(t, d, "the worker", isStatus(t, b, id, kanban.StatusRunning))
	first := onlyWorker(t, d)
	must(t, b.Block(t.Context(), id, kanban.Block{Reason: "wait"}))
	must(t, b.Unblock(t.Context(), id, "go on"))
	var r Report
	for range 3 {
		more, err := d.Tick(t.Context())
		must(t, err)
		r = add(r, more)
	}
	why, err := d.Why(t.Context(), kanban.DefaultSlug, id)
	must(t, err)
	if len(r.Spawned) != 0 || why.Holds[0].Reason != PreviousWorker || im.stops.Load() != 1 {
		t.Fatalf("%+v %+v, %d stops", r.Spawned, why, im.stops.Load())
	}
	first.proc.(immortal).Running.Stop(0)
	tickUntil(t, d, "the second worker", isStatus(t, b, id, kanban.StatusRunning))
}

func TestACardClaimedByAnotherProgramIsJudgedByItsPid(t *testing.T) {
	h := newHouse(t)
	h.config.CrashGrace = 30 * time.Second
	b := h.board(kanban.DefaultSlug)
	host, _, _ := cutLock(kanban.ClaimLock())
	dead := deadPID(t)
	foreign := func(pid int, print string, age int64) string {
		id := card(t, b, "human")
		claim, err := b.Claim(t.Context(), id, kanban.Claimer{Lock: host + ":" + strconv.Itoa(deadPID(t))})
		must(t, err)
		must(t, b.Spawned(t.Context(), id, claim.Run.ID, pid, print, ""))
		set(t, b, `UPDATE task_runs SET started_at = started_at - ? WHERE task_id = ?`, age, id)
		return id
	}
	young := foreign(dead, "", 0)
	old := foreign(dead, "", 31)
	alive := foreign(os.Getpid(), procfs.Fingerprint(os.Getpid()), 31)
	recycled := foreign(os.Getpid(), strings.Replace(procfs.Fingerprint(os.Getpid()), "|", "|1", 1), 31)
	rebooted := foreign(os.Getpid(), "00000000-0000-0000-0000-000000000000:1|2", 0)
	d := h.dispatcher()
	_, err := d.Tick(t.Context())
	must(t, err)
	for name, c := range map[string]struct {
		id       string
		status   kanban.Status
		failures int64
	}{
		"dead in its grace": {young, kanban.StatusRunning, 0}, "dead": {old, kanban.StatusReady, 1}, "alive": {alive, kanban.StatusRunning, 0},
		"pid recycled": {recycled, kanban.StatusReady, 1}, "before the reboot": {rebooted, kanban.StatusReady, 0},
	} {
		task, err := b.Task(t.Context(), c.id)
		must(t, err)
		if task.Status != c.status || task.ConsecutiveFailures != c.failures {
			t.Errorf("%s: %s with %d failures", name, task.Status, task.ConsecutiveFailures)
		}
	}
}

func TestAForeignWorkerThatShouldEndKeepsItsCardWithoutALineEachTick(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "human", func(n *kanban.NewTask) { n.MaxRuntimeSeconds = 1 })
	host, _, _ := cutLock(kanban.ClaimLock())
	claim, err := b.Claim(t.Context(), id, kanban.Claimer{Lock: host + ":" + strconv.Itoa(deadPID(t))})
	must(t, err)
	must(t, b.Spawned(t.Context(), id, claim.Run.ID, os.Getpid(), procfs.Fingerprint(os.Getpid()), ""))
	set(t, b, `UPDATE task_runs SET started_at = started_at - 100`)
	set(t, b, `UPDATE tasks SET claim_expires = claim_expires - 890`)
	d := h.dispatcher()
	tickUntil(t, d, "the deferral", func() bool { return events(t, b, id, "reclaim_deferred") > 0 })
	for range 4 {
		_, err := d.Tick(t.Context())
		must(t, err)
	}
	if n := events(t, b, id, "reclaim_deferred"); n != 1 || status(t, b, id) != kanban.StatusRunning {
		t.Errorf("%d deferrals, card %s", n, status(t, b, id))
	}
}

// deadPID is a pid that nobody has.
func deadPID(t *testing.T) int {
	t.Helper()
	for pid := 4_000_000; pid > 1_000_000; pid-- {
		if _, err := procfs.ReadStat(pid); err != nil {
			return pid
		}
	}
	t.Fatal("every pid is taken")
	return 0
}

func TestHalfAClaimIsReconciled(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "human")
	_, err := b.Claim(t.Context(), id, kanban.Claimer{})
	must(t, err)
	set(t, b, `UPDATE tasks SET claim_lock = NULL`)
	set(t, b, `UPDATE task_runs SET started_at = started_at - 60`)
	d := h.dispatcher()
	r := tickUntil(t, d, "the card to be freed", isStatus(t, b, id, kanban.StatusReady))
	if len(r.Reconciled) != 1 || events(t, b, id, "reconciled") != 1 {
		t.Errorf("%+v", r)
	}
}
