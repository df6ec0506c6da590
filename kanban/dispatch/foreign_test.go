package dispatch

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/procfs"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
	"gatewayd/reaper"
)

// trees are workers that are hard to end: each ends with one more line in $PIDS when all of it runs.
var trees = map[string]string{
	"ignores TERM":  `trap '' TERM; (trap '' TERM; sleep 600) & echo $$ >> "$PIDS"; wait; sleep 600`,
	"left session":  `trap '' TERM; setsid sh -c 'trap "" TERM; sleep 600' & echo $$ >> "$PIDS"; wait; sleep 600`,
	"forked twice":  `(setsid sh -c 'trap "" TERM; (trap "" TERM; sleep 600) & exit 0' & ) ; echo $$ >> "$PIDS"; exec sleep 600`,
	"was suspended": `echo $$ >> "$PIDS"; exec sleep 600`,
}

// pythons starts a worker as a Python dispatcher does, that is dead by now, and gives its card's run.
func pythons(t *testing.T, h *house, b *kanban.Board, id, script, print string) (kanban.RunID, int) {
	t.Helper()
	host, _, _ := cutLock(kanban.ClaimLock())
	claim, err := b.Claim(t.Context(), id, kanban.Claimer{Lock: host + ":" + strconv.Itoa(deadPID(t))})
	must(t, err)
	pids := filepath.Join(h.dir, "pids-"+id)
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = append(os.Environ(), append(marksOf(id, claim.Run.ID), "PIDS="+pids)...)
	must(t, cmd.Start())
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	t.Cleanup(func() {
		for alive := left(t, id); len(alive) > 0; alive = left(t, id) { // all that it started, also where nobody has ended it
			for _, pid := range alive {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		<-gone
	})
	wait(t, "the worker", func() bool { return len(lines(pids)) == 1 })
	if print == "whole" {
		print = procfs.Fingerprint(cmd.Process.Pid)
	}
	must(t, b.Spawned(t.Context(), id, claim.Run.ID, cmd.Process.Pid, print, ""))
	return claim.Run.ID, cmd.Process.Pid
}

// left lists what lives of a card's workers.
func left(t *testing.T, id string) []int {
	t.Helper()
	pids, err := procfs.Tagged("HERMES_KANBAN_TASK", id)
	must(t, err)
	return pids
}

func TestAWorkerOfADeadDispatcherIsEndedWithAllThatItStarted(t *testing.T) {
	for name, script := range trees {
		for _, why := range []string{"timed out", "stop asked for", "archived"} {
			t.Run(name+", "+why, func(t *testing.T) {
				t.Parallel()
				h := newHouse(t)
				b := h.board(kanban.DefaultSlug)
				id := card(t, b, "human", func(n *kanban.NewTask) { n.MaxRuntimeSeconds = 1000 })
				run, pid := pythons(t, h, b, id, script, "whole")
				if name == "was suspended" {
					must(t, syscall.Kill(pid, syscall.SIGSTOP))
				}
				event, to := kanban.EventReclaimed, kanban.StatusReady
				switch why {
				case "timed out":
					event = kanban.EventTimedOut
					set(t, b, `UPDATE task_runs SET started_at = started_at - 2000`)
				case "stop asked for":
					released, err := b.Terminate(t.Context(), run, "enough", "ann")
					must(t, err)
					if released.Now {
						t.Fatal("the card is released beside its worker")
					}
				case "archived":
					event, to = kanban.EventArchiveWorkerTermination, kanban.StatusArchived
					must(t, b.Archive(t.Context(), id))
				}
				d := h.dispatcher()
				tickUntil(t, d, "the event", func() bool {
					if s := status(t, b, id); s == kanban.StatusReady && len(left(t, id)) > 0 {
						t.Fatalf("the card is ready beside %v", left(t, id))
					}
					return events(t, b, id, event) == 1
				})
				if pids := left(t, id); len(pids) > 0 || status(t, b, id) != to {
					t.Errorf("card %s, and of its worker %v live", status(t, b, id), pids)
				}
			})
		}
	}
}

func TestAWorkerThatIsNotKnownForCertainIsNeverSignalled(t *testing.T) {
	for name, print := range map[string]string{
		"no fingerprint": "", "unverified": procfs.Unverified, "a start alone": "start",
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			b := h.board(kanban.DefaultSlug)
			id := card(t, b, "human", func(n *kanban.NewTask) { n.MaxRuntimeSeconds = 1000 })
			_, pid := pythons(t, h, b, id, `echo $$ >> "$PIDS"; exec sleep 600`, print)
			if print == "start" {
				stat, err := procfs.ReadStat(pid)
				must(t, err)
				set(t, b, `UPDATE tasks SET worker_started_at = ?`, int64(stat.Start))
			}
			set(t, b, `UPDATE task_runs SET started_at = started_at - 2000`)
			set(t, b, `UPDATE tasks SET claim_expires = claim_expires - 890`)
			d := h.dispatcher(func(o *Options) { o.EndForeign = nil })
			tickUntil(t, d, "the deferral", func() bool { return events(t, b, id, "reclaim_deferred") > 0 })
			if pids := left(t, id); len(pids) != 1 || status(t, b, id) != kanban.StatusRunning {
				t.Errorf("card %s, processes %v", status(t, b, id), pids)
			}
		})
	}
}

func TestAWorkerThatAStopDoesNotEndKeepsItsCard(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "human")
	run, _ := pythons(t, h, b, id, `echo $$ >> "$PIDS"; exec sleep 600`, "whole")
	_, err := b.Terminate(t.Context(), run, "enough", "ann")
	must(t, err)
	tries := 0
	d := h.dispatcher(func(o *Options) {
		o.EndForeign = func(context.Context, reaper.Foreign, time.Duration) reaper.Departure {
			tries++
			return reaper.Departure{Attempted: true, Killed: true, Left: 1}
		}
	})
	r := tickUntil(t, d, "the deferral", func() bool { return events(t, b, id, "reclaim_deferred") == 1 })
	for range 3 {
		more, err := d.Tick(t.Context())
		must(t, err)
		r = add(r, more)
	}
	if s := status(t, b, id); s != kanban.StatusRunning || tries != 1 || len(r.Deferred) != 1 {
		t.Errorf("card %s after %d tries, %d deferrals", s, tries, len(r.Deferred))
	}
}

func TestAStopRequestEndsTheWholeTreeBeforeTheCardIsFree(t *testing.T) {
	for name, script := range trees {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			pids := filepath.Join(h.dir, "pids")
			h.config.Lanes["hard"] = config.Lane{Preset: "claude", Argv: []string{"sh", "-c", script}, Env: map[string]string{"PIDS": pids}, KillGrace: 100 * time.Millisecond}
			b := h.board(kanban.DefaultSlug)
			id := card(t, b, "hard")
			d := h.dispatcher()
			tickUntil(t, d, "the worker", func() bool { return len(lines(pids)) == 1 })
			w := onlyWorker(t, d)
			if name == "was suspended" {
				must(t, syscall.Kill(w.proc.PID(), syscall.SIGSTOP))
			}
			must(t, b.Pause(t.Context(), kanban.Pause{Mode: kanban.PauseDrain}))
			asked, err := b.StopAll(t.Context(), "enough", "ann")
			must(t, err)
			if asked != 1 || status(t, b, id) != kanban.StatusRunning {
				t.Fatalf("%d asked, card %s", asked, status(t, b, id))
			}
			tickUntil(t, d, "the card", isStatus(t, b, id, kanban.StatusReady))
			if alive, err := procfs.Tagged(reaper.TagKey, w.id); err != nil || len(alive) > 0 {
				t.Errorf("the card is free beside %v (%v)", alive, err)
			}
			task, err := b.Task(t.Context(), id)
			must(t, err)
			list, err := b.TaskEvents(t.Context(), id)
			must(t, err)
			last := list[len(list)-1]
			if task.ConsecutiveFailures != 0 || last.Kind != kanban.EventReclaimed || !strings.Contains(string(last.Payload), `"manual": true`) {
				t.Errorf("%d failures, %s %s", task.ConsecutiveFailures, last.Kind, last.Payload)
			}
		})
	}
}

// Two homes on one root that share no records: the second daemon knows the first one's worker by the board alone.
func TestACardDoesNotStartBesideAWorkerOfAnotherHome(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	pids := filepath.Join(h.dir, "pids")
	h.config.Lanes["hard"] = config.Lane{Preset: "claude", Argv: []string{"sh", "-c", trees["left session"]}, Env: map[string]string{"PIDS": pids}, KillGrace: 100 * time.Millisecond}
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "hard")
	first := h.dispatcher()
	tickUntil(t, first, "the first worker", func() bool { return len(lines(pids)) == 1 })
	w := onlyWorker(t, first)
	first.close()
	must(t, b.Block(t.Context(), id, kanban.Block{Run: &w.run, Reason: "wait"}))
	must(t, b.Unblock(t.Context(), id, "go on"))
	away := t.TempDir()
	keepers, err := reaper.New(reaper.Options{Dir: filepath.Join(away, "records"), Spares: -1})
	must(t, err)
	t.Cleanup(func() {
		records, _ := keepers.Records()
		for _, r := range records {
			if p, err := keepers.Adopt(r.ID); err == nil {
				p.Stop(0)
				<-p.Done()
			}
		}
	})
	second := h.dispatcher(func(o *Options) {
		o.RunsDir = filepath.Join(away, "runs")
		o.Launcher = &worker.Local{Reaper: keepers, Environ: h.local.Environ, RunsDir: o.RunsDir}
	})
	held := false
	r := tickUntil(t, second, "the second worker", func() bool {
		for _, hold := range second.boards[kanban.DefaultSlug].holds {
			held = held || hold.Reason == PreviousWorker
		}
		if len(lines(pids)) < 2 {
			return false
		}
		if alive, err := procfs.Tagged(reaper.TagKey, w.id); err != nil || len(alive) > 0 {
			t.Errorf("a second worker runs beside %v of the first (%v)", alive, err)
		}
		return true
	})
	if !held || len(r.Spawned) != 1 {
		t.Errorf("held %v, started %d", held, len(r.Spawned))
	}
}
