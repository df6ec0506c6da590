package kanban

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
)

// worker is a living process that stands for the worker of a card's run.
type worker struct {
	cmd *exec.Cmd
	run RunID
}

// withWorker claims a card and records a process as its worker. The process ends with the test, or by end.
func (b *Board) withWorker(t *testing.T, card string, by Claimer) worker {
	t.Helper()
	claim, err := b.Claim(t.Context(), card, by)
	if err != nil {
		t.Fatal(err)
	}
	w := worker{cmd: exec.Command("sleep", "600"), run: claim.Run.ID}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.end)
	if err := b.Spawned(t.Context(), card, w.run, w.pid(), procfs.Fingerprint(w.pid()), "keeper"); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w worker) pid() int { return w.cmd.Process.Pid }

func (w worker) end() {
	w.cmd.Process.Kill()
	w.cmd.Wait()
}

func (b *Board) mustStops(t *testing.T) []Stop {
	t.Helper()
	stops, err := b.Stops(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stops
}

func TestACardIsNotReleasedBesideItsLivingWorker(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do       func(b *Board, card string, run RunID) (Released, error)
		to       Status
		assignee string
		kinds    []string // after stop_requested
	}{
		"reclaim": {
			func(b *Board, card string, _ RunID) (Released, error) {
				return b.Reclaim(t.Context(), card, "too slow", "ann")
			}, StatusReady, "dev", []string{"reclaimed"},
		},
		"terminate": {
			func(b *Board, _ string, run RunID) (Released, error) {
				return b.Terminate(t.Context(), run, "too slow", "ann")
			}, StatusReady, "dev", []string{"reclaimed"},
		},
		"reassign": {
			func(b *Board, card string, _ RunID) (Released, error) {
				return b.Reassign(t.Context(), card, "@Ops", "too slow", "ann", true)
			}, StatusReady, "ops", []string{"reclaimed", "assigned"},
		},
		"reassign to nobody": {
			func(b *Board, card string, _ RunID) (Released, error) {
				return b.Reassign(t.Context(), card, "none", "too slow", "ann", true)
			}, StatusReady, "", []string{"reclaimed", "assigned"},
		},
		"move to triage": {
			func(b *Board, card string, _ RunID) (Released, error) {
				return b.Move(t.Context(), card, StatusTriage, Movement{Reason: "too slow", Actor: "ann"})
			}, StatusTriage, "dev", []string{"reclaimed", "status"},
		},
		"move to todo": {
			func(b *Board, card string, _ RunID) (Released, error) {
				return b.Move(t.Context(), card, StatusTodo, Movement{Reason: "too slow", Actor: "ann"})
			}, StatusReady, "dev", []string{"reclaimed", "status", "promoted"},
		},
		"move to review": {
			func(b *Board, card string, _ RunID) (Released, error) {
				return b.Move(t.Context(), card, StatusReview, Movement{Reason: "too slow", Actor: "ann"})
			}, StatusReview, "dev", []string{"reclaimed", "status"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoard(t)
			card := b.make(t, NewTask{Assignee: "dev"}).ID
			w := b.withWorker(t, card, Claimer{})
			got, err := c.do(b, card, w.run)
			if err != nil || got.Now || got.Worker != w.pid() || got.Status != StatusRunning {
				t.Errorf("beside a living worker: %+v, %v", got, err)
			}
			b.wantStatus(t, card, StatusRunning)
			running, err := b.Running(t.Context())
			if err != nil || len(running) != 1 || running[0].Stop == nil || running[0].Stop.Reason != "too slow" || running[0].Stop.Actor != "ann" {
				t.Fatalf("the dispatcher sees no request: %+v, %v", running, err)
			}
			w.end()
			ended, err := b.EndRun(t.Context(), End{Task: card, Run: w.run, Outcome: OutcomeCrashed, Count: true, Manual: map[string]any{"prev_pid": w.pid(), "terminated": true}})
			if err != nil || ended.GaveUp || ended.Status != c.to {
				t.Errorf("ended: %+v, %v", ended, err)
			}
			after := b.get(t, card)
			if after.Status != c.to || after.Assignee != c.assignee || after.ConsecutiveFailures != 0 {
				t.Errorf("the card is %s, %q's, with %d failures", after.Status, after.Assignee, after.ConsecutiveFailures)
			}
			if kinds := b.kinds(t, card)[3:]; !slices.Equal(kinds, append([]string{"stop_requested"}, c.kinds...)) {
				t.Errorf("events: %v", kinds)
			}
			if run := b.runs(t, card)[0]; run.Outcome != OutcomeReclaimed || run.Error != "too slow" {
				t.Errorf("run: %+v", run)
			}
			p := b.lastPayload(t, card, EventReclaimed)
			if p["manual"] != true || p["reason"] != "too slow" || p["prev_lock"] != ClaimLock() || p["terminated"] != true || p["actor"] != "ann" {
				t.Errorf("payload: %v", p)
			}
			if left := b.mustStops(t); len(left) != 0 {
				t.Errorf("requests are left: %+v", left)
			}
			b.invariants(t)
		})
	}
}

func TestACardWithoutALivingWorkerIsReleasedAtOnce(t *testing.T) {
	b := newBoard(t)
	for name, prepare := range map[string]func(card string){
		"claimed by hand": func(card string) { b.mustClaim(t, card) },
		"elsewhere": func(card string) {
			b.withWorker(t, card, Claimer{Lock: "elsewhere:1"})
		},
		"dead": func(card string) { b.withWorker(t, card, Claimer{}).end() },
	} {
		card := b.make(t, NewTask{Assignee: "dev"}).ID
		prepare(card)
		got, err := b.Reclaim(t.Context(), card, "", "")
		if err != nil || !got.Now || got.Status != StatusReady || got.Worker != 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		b.wantStatus(t, card, StatusReady)
		if _, err := b.Reclaim(t.Context(), card, "", ""); !problem.Is(err, problem.Conflict) {
			t.Errorf("%s, once more: %v", name, err)
		}
	}
	b.invariants(t)
}

func TestAReclaimedReviewGoesBackToReview(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Assignee: "dev"}).ID
	if err := b.RequestReview(t.Context(), card, Review{Reviewer: "critic", Summary: "s"}); err != nil {
		t.Fatal(err)
	}
	w := b.withWorker(t, card, Claimer{Review: true})
	if _, err := b.Reclaim(t.Context(), card, "", ""); err != nil {
		t.Fatal(err)
	}
	w.end()
	if _, err := b.EndRun(t.Context(), End{Task: card, Run: w.run, Outcome: OutcomeReclaimed}); err != nil {
		t.Fatal(err)
	}
	b.wantStatus(t, card, StatusReview)
	if _, err := b.Claim(t.Context(), card, Claimer{Review: true}); err != nil {
		t.Error(err)
	}
	if _, err := b.Move(t.Context(), card, StatusReady, Movement{}); err != nil {
		t.Fatal(err)
	}
	if got := b.get(t, card); got.Status != StatusReady || got.Assignee != "dev" {
		t.Errorf("taken from its reviewer the card is %s and %q's", got.Status, got.Assignee)
	}
}

func TestAReleasedCardWithAnOpenParentWaitsForIt(t *testing.T) {
	b := newBoard(t)
	card, parent := b.make(t, NewTask{}).ID, b.make(t, NewTask{}).ID
	run := b.mustClaim(t, card)
	if err := b.LinkAs(t.Context(), parent, card, run); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Reclaim(t.Context(), card, "", ""); err != nil || got.Status != StatusTodo {
		t.Errorf("%+v, %v", got, err)
	}
	b.invariants(t)
}

func TestTheWorkerOfACardThatMovedOnIsEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(b *Board, card string) error
		kind string
	}{
		"block":   {func(b *Board, card string) error { return b.Block(t.Context(), card, Block{Reason: "r"}) }, "terminal_worker_reaped"},
		"archive": {func(b *Board, card string) error { return b.Archive(t.Context(), card) }, "archive_worker_termination"},
		"complete": {func(b *Board, card string) error {
			return b.Complete(t.Context(), card, Completion{Force: true, Summary: "s"})
		}, "terminal_worker_reaped"},
		"review": {func(b *Board, card string) error { return b.RequestReview(t.Context(), card, Review{Force: true}) }, "terminal_worker_reaped"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoard(t)
			card := b.make(t, NewTask{Assignee: "dev"}).ID
			w := b.withWorker(t, card, Claimer{})
			if err := c.do(b, card); err != nil {
				t.Fatal(err)
			}
			stops := b.mustStops(t)
			if len(stops) != 1 || stops[0].Run != w.run || stops[0].Worker != w.pid() || stops[0].WorkerStarted == "" {
				t.Fatalf("requests: %+v", stops)
			}
			if survey, err := b.Survey(t.Context()); err != nil || len(survey.Stops) != 1 {
				t.Errorf("survey: %+v, %v", survey, err)
			}
			w.end()
			if err := b.Stopped(t.Context(), w.run, map[string]any{"terminated": true}); err != nil {
				t.Fatal(err)
			}
			if p := b.lastPayload(t, card, c.kind); p["pid"] != float64(w.pid()) || p["terminated"] != true {
				t.Errorf("payload: %v", p)
			}
			if left := b.mustStops(t); len(left) != 0 {
				t.Errorf("requests are left: %+v", left)
			}
			b.invariants(t)
		})
	}
}

func TestAWorkersOwnVerdictWithdrawsTheRequest(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{}).ID
	w := b.withWorker(t, card, Claimer{})
	if _, err := b.Reclaim(t.Context(), card, "", ""); err != nil {
		t.Fatal(err)
	}
	if err := b.Complete(t.Context(), card, Completion{Run: &w.run, Summary: "s"}); err != nil {
		t.Fatal(err)
	}
	b.wantStatus(t, card, StatusDone)
	if left := b.mustStops(t); len(left) != 0 {
		t.Errorf("requests are left: %+v", left)
	}
}

func TestACardIsNotClaimedWhileItsLastWorkerLives(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{}).ID
	w := b.withWorker(t, card, Claimer{})
	if err := b.Block(t.Context(), card, Block{Run: &w.run, Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	if err := b.Unblock(t.Context(), card, ""); err != nil {
		t.Fatal(err)
	}
	_, err := b.Claim(t.Context(), card, Claimer{})
	wantErr(t, err, ErrTaken)
	b.wantStatus(t, card, StatusReady)
	w.end()
	b.mustClaim(t, card)
	b.invariants(t)
}

func TestTerminateKnowsOnlyTheCurrentRun(t *testing.T) {
	b := newBoard(t)
	_, stale, current := supersede(t, b)
	_, err := b.Terminate(t.Context(), stale, "", "")
	wantErr(t, err, ErrStaleRun)
	if _, err := b.Terminate(t.Context(), 999, "", ""); !problem.Is(err, problem.NotFound) || !strings.Contains(err.Error(), "run 999") {
		t.Errorf("a run that never was: %v", err)
	}
	if got, err := b.Terminate(t.Context(), current, "", ""); err != nil || !got.Now {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestReassignLeavesARunningCardUnlessItIsReclaimed(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Assignee: "dev"}).ID
	b.mustClaim(t, card)
	_, err := b.Reassign(t.Context(), card, "ops", "", "", false)
	wantErr(t, err, ErrLiveClaim)
	if got, err := b.Reassign(t.Context(), card, "ops", "", "", true); err != nil || !got.Now {
		t.Errorf("%+v, %v", got, err)
	}
	if got := b.get(t, card); got.Assignee != "ops" || got.Status != StatusReady {
		t.Errorf("the card is %s and %q's", got.Status, got.Assignee)
	}
	if _, err := b.Reassign(t.Context(), card, "-", "", "", true); err != nil || b.get(t, card).Assignee != "" {
		t.Errorf("taken from everybody: %v", err)
	}
}
