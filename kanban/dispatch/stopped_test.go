package dispatch

import (
	"errors"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/procfs"
	"gatewayd/kanban"
)

// A worker that was stopped (by a debugger, by a person's Ctrl-Z) is alive: its claim is extended, not taken away. Its time
// runs all the same, and when it is over its whole tree is gone before the card starts again.
func TestAStoppedWorkerKeepsItsCardUntilItsTimeIsUp(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.config.CrashGrace = 0
	pids := filepath.Join(h.dir, "pids")
	h.config.Lanes["stops"] = config.Lane{
		Argv: []string{"sh", "-c", `echo $$ >> "$PIDS"; kill -STOP $$; sleep 600`}, Env: map[string]string{"PIDS": pids}, KillGrace: 100 * time.Millisecond,
	}
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "stops", func(n *kanban.NewTask) { n.MaxRuntimeSeconds = 3 })
	d := h.dispatcher()
	tickUntil(t, d, "the worker to stop", func() bool {
		list := lines(pids)
		return len(list) == 1 && isStopped(list[0])
	})
	first := onlyWorker(t, d).id
	set(t, b, `UPDATE tasks SET claim_expires = 1`)
	tickUntil(t, d, "the claim to be extended", func() bool { return events(t, b, id, "claim_extended") == 1 })
	if status(t, b, id) != kanban.StatusRunning || len(lines(pids)) != 1 {
		t.Errorf("a stopped worker lost its card")
	}
	tickUntil(t, d, "the second worker", func() bool { return len(lines(pids)) == 2 })
	if h.local.Lives(first) {
		t.Error("the second worker runs beside the first")
	}
	if events(t, b, id, kanban.EventTimedOut) != 1 {
		t.Error("it was not told that its time was up")
	}
}

func isStopped(pid string) bool {
	n, _ := strconv.Atoi(pid)
	stat, err := procfs.ReadStat(n)
	return err == nil && stat.State == 'T'
}

// A keeper that is stopped cannot end its worker, so the worker survives being asked. Then the card is kept, with the reason
// in its history, for as long as that lasts; and it starts again only when nothing of the first worker is left, which is
// refused everything from then on.
func TestACardIsKeptWhileItsWorkerSurvivesAndTheFenceHoldsAfterwards(t *testing.T) {
	h := newHouse(t)
	h.config.CrashGrace = 0
	pids := filepath.Join(h.dir, "pids")
	h.config.Lanes["silent"] = config.Lane{
		Preset: "claude", Argv: []string{"sh", "-c", stubborn}, Env: map[string]string{"PIDS": pids}, KillGrace: 50 * time.Millisecond,
	}
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "silent")
	d := h.dispatcher()
	tickUntil(t, d, "the worker", func() bool { return len(lines(pids)) == 1 && onlyWorker(t, d).proc != nil })
	w := onlyWorker(t, d)
	records, err := h.reaper.Records()
	must(t, err)
	keeper := records[0].Keeper.PID
	must(t, syscall.Kill(keeper, syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(keeper, syscall.SIGCONT) })

	set(t, b, `UPDATE tasks SET claim_expires = 1, last_heartbeat_at = 1`)
	tickUntil(t, d, "the worker to be asked", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return w.cause == ClaimOver })
	d.mu.Lock()
	w.asked = w.asked.Add(-time.Minute)
	d.mu.Unlock()
	tickUntil(t, d, "the card to be kept", func() bool { return events(t, b, id, "reclaim_deferred") == 1 })
	for range 3 {
		_, err := d.Tick(t.Context())
		must(t, err)
	}
	if status(t, b, id) != kanban.StatusRunning || len(lines(pids)) != 1 {
		t.Fatalf("the card was let go beside its worker")
	}
	must(t, syscall.Kill(keeper, syscall.SIGCONT))
	tickUntil(t, d, "the second worker", func() bool { return len(lines(pids)) == 2 })
	if h.local.Lives(w.id) {
		t.Error("the second worker runs beside the first")
	}
	before := count(t, b, `SELECT count(*) FROM task_events`)
	for name, err := range writesOf(t, b, id, w.run) {
		wantStale(t, name, err)
	}
	if after := count(t, b, `SELECT count(*) FROM task_events`); after != before {
		t.Errorf("a superseded worker wrote %d events", after-before)
	}
	legal(t, b)
}

// writesOf tries everything that a worker may say of its card by its run.
func writesOf(t *testing.T, b *kanban.Board, id string, run kanban.RunID) map[string]error {
	t.Helper()
	ctx := t.Context()
	return map[string]error{
		"complete":  b.Complete(ctx, id, kanban.Completion{Run: &run, Summary: "s", Force: true}),
		"block":     b.Block(ctx, id, kanban.Block{Run: &run, Reason: "r"}),
		"heartbeat": b.Heartbeat(ctx, id, run, "n", time.Minute),
		"spawned":   b.Spawned(ctx, id, run, 1, "f", "k"),
		"workspace": b.SetWorkspace(ctx, id, run, "/x", ""),
	}
}

func wantStale(t *testing.T, name string, err error) {
	t.Helper()
	if !errors.Is(err, kanban.ErrStaleRun) {
		t.Errorf("%s by a superseded worker: %v", name, err)
	}
}
