package dispatch

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

func TestABoardInAnotherProcessesTickIsLeftToIt(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "ok")
	lock, err := kanban.TryDispatchLock(h.root.DBPath(kanban.DefaultSlug))
	must(t, err)
	d := h.dispatcher()
	r, err := d.Tick(t.Context())
	must(t, err)
	if len(r.Locked) != 1 || len(r.Spawned) != 0 {
		t.Errorf("%+v", r)
	}
	why, err := d.Why(t.Context(), kanban.DefaultSlug, id)
	must(t, err)
	if why.Holds[0].Reason != BoardLocked {
		t.Errorf("%+v", why)
	}
	must(t, lock.Close())
	tickUntil(t, d, "the card", isStatus(t, b, id, kanban.StatusDone))
}

// refusing is a launcher that cannot start anything, for a given reason.
type refusing struct {
	worker.Launcher
	fault worker.Fault
}

func (l refusing) Launch(context.Context, worker.Job) (worker.Running, error) {
	return nil, &worker.LaunchError{Fault: l.fault, Err: errors.New("no")}
}

func TestAFailedStartCountsOnlyWhenItIsTheCardsFault(t *testing.T) {
	for fault, want := range map[worker.Fault]int64{worker.FaultCard: 1, worker.FaultProgram: 0, worker.FaultHost: 0} {
		t.Run(string(fault), func(t *testing.T) {
			h := newHouse(t)
			b := h.board(kanban.DefaultSlug)
			id := card(t, b, "ok")
			d := h.dispatcher(func(o *Options) { o.Launcher = refusing{h.local, fault} })
			_, err := d.Tick(t.Context())
			must(t, err)
			task, err := b.Task(t.Context(), id)
			must(t, err)
			if task.Status != kanban.StatusReady || task.ConsecutiveFailures != want {
				t.Errorf("%s with %d failures", task.Status, task.ConsecutiveFailures)
			}
			why, err := d.Why(t.Context(), kanban.DefaultSlug, id)
			must(t, err)
			if waits := why.Holds[0].Reason == LaneBackoff; waits != (want == 0) {
				t.Errorf("%+v", why.Holds)
			}
		})
	}
}

func TestAWorkspaceFailureSaysSoOnTheCard(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "ok", func(n *kanban.NewTask) { n.WorkspaceKind, n.WorkspacePath = kanban.WorkspaceDir, "/proc/no/such/place" })
	tickUntil(t, h.dispatcher(), "the breaker", isStatus(t, b, id, kanban.StatusBlocked))
	if task, err := b.Task(t.Context(), id); err != nil || !strings.HasPrefix(task.LastFailureError, "workspace: ") {
		t.Errorf("%q %v", task.LastFailureError, err)
	}
}

func TestAWorkerThatOutlivesItsRunIsEnded(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "sleep")
	d := h.dispatcher()
	tickUntil(t, d, "the worker", isStatus(t, b, id, kanban.StatusRunning))
	w := onlyWorker(t, d)
	must(t, b.Block(t.Context(), id, kanban.Block{Run: &w.run, Reason: "it needs a person"}))
	_, err := d.Tick(t.Context())
	must(t, err)
	if !w.proc.Alive() || w.over.IsZero() {
		t.Fatal("a worker that just ended its card may say goodbye")
	}
	d.mu.Lock()
	w.over = w.over.Add(-leftoverGrace)
	d.mu.Unlock()
	tickUntil(t, d, "the worker's end", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return len(d.workers) == 0 })
	if s := status(t, b, id); s != kanban.StatusBlocked || events(t, b, id, kanban.EventTerminalWorkerReaped) != 1 {
		t.Errorf("the card is %s", s)
	}
}

func TestAWorkerFromBeforeTheRestartWhoseRunIsOverIsEndedToo(t *testing.T) {
	h := newHouse(t)
	h.config = playSettings(h.dir)
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "long")
	play(t, h.dir, "recorded")
	must(t, b.Block(t.Context(), id, kanban.Block{Reason: "wait"}))
	d := h.dispatcher()
	_, err := d.Tick(t.Context())
	must(t, err)
	w := onlyWorker(t, d)
	d.mu.Lock()
	w.over = time.Now().Add(-leftoverGrace)
	d.mu.Unlock()
	tickUntil(t, d, "the worker's end", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return len(d.workers) == 0 })
	if keepers, err := b.Keepers(t.Context()); err != nil || len(keepers) > 0 {
		t.Errorf("unsettled: %v %v", keepers, err)
	}
}

func TestDispatchOffSaysSo(t *testing.T) {
	h := newHouse(t)
	h.config.Dispatch = false
	h.board(kanban.DefaultSlug)
	d := h.dispatcher()
	go func() { _ = d.Run(t.Context()) }()
	wait(t, "the status", func() bool { return d.Status().Outside != nil })
	if st := d.Status(); st.Outside.Reason != DispatchOff || st.Dispatching || len(st.Boards) != 1 {
		t.Errorf("%+v", st)
	}
}
