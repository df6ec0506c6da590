package dispatch

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/vigil"
	"gatewayd/kanban"
)

func TestACommandsCleanExitCompletesItsCard(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "ok")
	d := h.dispatcher()
	r := tickUntil(t, d, "the card to be done", isStatus(t, b, id, kanban.StatusDone))
	if len(r.Spawned) != 1 || len(r.Completed) != 1 {
		t.Errorf("%+v", r)
	}
	detail, err := b.Show(context.Background(), id)
	must(t, err)
	if detail.LatestSummary != "all good" || len(detail.Runs) != 1 || detail.Runs[0].WorkerPID == 0 {
		t.Errorf("%+v", detail.Runs)
	}
	if keepers, err := b.Keepers(context.Background()); err != nil || len(keepers) > 0 {
		t.Errorf("unsettled: %v %v", keepers, err)
	}
	for _, dir := range []string{"records", "runs"} {
		if left, _ := os.ReadDir(filepath.Join(h.dir, dir)); len(left) > 0 {
			t.Errorf("%s is left behind: %v", dir, left)
		}
	}
	if _, err := os.Stat(h.root.WorkspaceDir(kanban.DefaultSlug, id)); !os.IsNotExist(err) {
		t.Errorf("the scratch workspace is still there: %v", err)
	}
	if n := h.log.count("level=DEBUG msg=\"workspace removed\""); n != 1 {
		t.Errorf("%d of its removal's lines are for those who look closely", n)
	}
}

func TestACardThatCrashesTwiceIsBlocked(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "fail")
	d := h.dispatcher()
	r := tickUntil(t, d, "the breaker to trip", isStatus(t, b, id, kanban.StatusBlocked))
	if len(r.Spawned) != 2 || len(r.Crashed) != 2 || len(r.AutoBlocked) != 1 {
		t.Errorf("%+v", r)
	}
	task, err := b.Task(context.Background(), id)
	must(t, err)
	if !strings.HasSuffix(task.LastFailureError, "exited with code 3: broken | twice over") {
		t.Errorf("the card says %q", task.LastFailureError)
	}
	why, err := d.Why(context.Background(), kanban.DefaultSlug, id)
	must(t, err)
	if why.Holds[0].Reason != Blocked || why.Holds[0].Since == nil || !strings.Contains(why.Holds[0].Detail, "broken") {
		t.Errorf("%+v", why)
	}
}

func TestExit75WaitsAndIsNotCounted(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "limit")
	d := h.dispatcher()
	limited := func() bool { return events(t, b, id, kanban.EventRateLimited) == 1 }
	tickUntil(t, d, "the rate limit", limited)
	r, err := d.Tick(context.Background())
	must(t, err)
	task, err := b.Task(context.Background(), id)
	must(t, err)
	if task.Status != kanban.StatusReady || task.ConsecutiveFailures != 0 || len(r.Spawned) != 0 || r.Held[RateLimitCooldown] != 1 {
		t.Errorf("%s, %d failures, %+v", task.Status, task.ConsecutiveFailures, r)
	}
	if n := events(t, b, id, "respawn_guarded"); n != 1 {
		t.Errorf("%d respawn_guarded events over several ticks", n)
	}
	set(t, b, `UPDATE task_runs SET ended_at = ended_at - 301`)
	tickUntil(t, d, "the second run", func() bool { return events(t, b, id, kanban.EventRateLimited) == 2 })
}

func TestExit78BlocksAtOnceAndSticks(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "gone")
	d := h.dispatcher()
	r := tickUntil(t, d, "the block", isStatus(t, b, id, kanban.StatusBlocked))
	if len(r.Spawned) != 1 {
		t.Errorf("%d runs", len(r.Spawned))
	}
	task, err := b.Task(context.Background(), id)
	must(t, err)
	if !strings.HasSuffix(task.LastFailureError, "exited with code 78: it says that its configuration is wrong") {
		t.Errorf("a command's card says %q", task.LastFailureError)
	}
	list, err := b.TaskEvents(context.Background(), id)
	must(t, err)
	if last := list[len(list)-1]; last.Kind != kanban.EventGaveUp || !strings.Contains(string(last.Payload), `"sticky": true`) {
		t.Errorf("%s %s", last.Kind, last.Payload)
	}
}

func TestThreeSilentExitsBlockACard(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "mute")
	d := h.dispatcher()
	r := tickUntil(t, d, "the block", isStatus(t, b, id, kanban.StatusBlocked))
	task, err := b.Task(context.Background(), id)
	must(t, err)
	if len(r.Spawned) != 3 || len(r.Violations) != 3 || task.ConsecutiveFailures != 0 {
		t.Errorf("%d runs, %d violations, %d failures", len(r.Spawned), len(r.Violations), task.ConsecutiveFailures)
	}
}

func TestMaxRuntimeEndsAWorkerWithItsTree(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "sleep", func(n *kanban.NewTask) { n.MaxRuntimeSeconds = 1 })
	d := h.dispatcher()
	r := tickUntil(t, d, "the timeout", func() bool { return events(t, b, id, kanban.EventTimedOut) == 1 })
	if len(r.TimedOut) != 1 {
		t.Errorf("%+v", r)
	}
	detail, err := b.Show(context.Background(), id)
	must(t, err)
	if !strings.Contains(detail.Runs[0].Error, "> limit 1s") && !strings.Contains(detail.Runs[len(detail.Runs)-1].Error, "> limit 1s") {
		t.Errorf("%+v", detail.Runs)
	}
}

func TestParentsFirst(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	parent := card(t, b, "ok")
	child := card(t, b, "ok", func(n *kanban.NewTask) { n.Parents = []string{parent} })
	d := h.dispatcher()
	r := tickUntil(t, d, "the child to be done", isStatus(t, b, child, kanban.StatusDone))
	if len(r.Completed) != 2 || r.Completed[0].Task != parent {
		t.Errorf("%+v", r.Completed)
	}
}

func TestAParentsFilesStayUntilItsChildrenHaveReadThem(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	parent := card(t, b, "ok")
	child := card(t, b, "human", func(n *kanban.NewTask) { n.Parents = []string{parent} })
	d := h.dispatcher()
	tickUntil(t, d, "the parent to be done", isStatus(t, b, parent, kanban.StatusDone))
	_, err := d.Tick(t.Context())
	must(t, err)
	files := h.root.WorkspaceDir(kanban.DefaultSlug, parent)
	if _, err := os.Stat(files); err != nil {
		t.Errorf("the child cannot read its parent's files: %v", err)
	}
	must(t, b.Assign(t.Context(), child, "ok"))
	tickUntil(t, d, "the child to be done", isStatus(t, b, child, kanban.StatusDone))
	if _, err := os.Stat(files); !os.IsNotExist(err) {
		t.Errorf("the parent's files are still there: %v", err)
	}
}

func TestRunIsWokenByAForeignCommitAndByAWorkersEnd(t *testing.T) {
	h := newHouse(t)
	h.config.Interval = time.Hour
	b := h.board(kanban.DefaultSlug)
	d := h.dispatcher()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	wait(t, "the first tick", func() bool { return d.Status().Ticks > 0 })
	id := card(t, b, "ok") // through another handle: no Wake
	wait(t, "the card to be done", isStatus(t, b, id, kanban.StatusDone))
	late := h.board("late") // a board made while it runs
	id = card(t, late, "ok")
	wait(t, "the late board's card", isStatus(t, late, id, kanban.StatusDone))
	cancel()
	must(t, <-ended)
	if _, err := d.Tick(context.Background()); err == nil {
		t.Error("a tick after the end")
	}
}

// wait polls a condition that other goroutines and processes bring about.
func wait(t testing.TB, what string, done func() bool) {
	t.Helper()
	if !vigil.Until(patience, nil, done) {
		t.Fatalf("waited in vain for: %s", what)
	}
}
