package kanban

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestFiftyClaimersOneWinner(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Assignee: "dev"})
	others := []*Board{b}
	for range 4 { // connections of their own, as other processes have
		others = append(others, openBoard(t, Options{Path: b.Path()}))
	}
	const claimers = 50
	gate, results := make(chan struct{}), make(chan error, claimers)
	var ready sync.WaitGroup
	for i := range claimers {
		ready.Add(1)
		go func() {
			ready.Done()
			<-gate
			_, err := others[i%len(others)].Claim(t.Context(), card.ID, Claimer{Lock: "host:" + string(rune('a'+i%26))})
			results <- err
		}()
	}
	ready.Wait()
	close(gate)
	won := 0
	for range claimers {
		switch err := <-results; {
		case err == nil:
			won++
		case !errors.Is(err, ErrTaken):
			t.Errorf("a loser heard %v", err)
		}
	}
	wantOneClaim(t, b, card.ID, won)
}

func TestClaimersOfManyProcessesOneWinner(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	won := 0
	for _, said := range together(t, 8, "claim", b.Path(), card.ID) {
		switch said {
		case "won":
			won++
		case "lost":
		default:
			t.Error(said)
		}
	}
	wantOneClaim(t, b, card.ID, won)
}

func wantOneClaim(t *testing.T, b *Board, id string, won int) {
	t.Helper()
	if won != 1 {
		t.Errorf("%d claimers won", won)
	}
	if runs := b.runs(t, id); len(runs) != 1 || !runs[0].Open() {
		t.Errorf("runs: %+v", runs)
	}
	if got := b.scalar(t, `SELECT COUNT(*) FROM task_events WHERE kind = 'claimed'`); got != "1" {
		t.Errorf("%s claimed events", got)
	}
	b.invariants(t)
}

func TestClaimIsACleanStart(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Assignee: "dev", MaxRuntimeSeconds: 60})
	b.sql(t, `UPDATE tasks SET last_heartbeat_at = 5, worker_pid = 9, worker_started_at = 'x', started_at = 7, current_step_key = 'step' WHERE id = ?`, card.ID)
	claim, err := b.Claim(t.Context(), card.ID, Claimer{Lock: "host:1", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	got := b.get(t, card.ID)
	if got.LastHeartbeatAt != 0 || got.WorkerPID != 0 || got.WorkerStarted != "" {
		t.Errorf("the last attempt shows through: %+v", got)
	}
	if got.StartedAt != 7 || got.ClaimLock != "host:1" || got.CurrentRunID != claim.Run.ID || got.Status != StatusRunning {
		t.Errorf("claimed card: %+v", got)
	}
	if claim.Task.CurrentRunID != claim.Run.ID || claim.Task.Title != card.Title {
		t.Errorf("the claim carries another card: %+v", claim.Task)
	}
	run := b.runs(t, card.ID)[0]
	if claim.Run.Metadata = run.Metadata; run.ID != claim.Run.ID || run.Profile != "dev" || run.StepKey != "step" || run.MaxRuntimeSeconds != 60 ||
		run.ClaimExpires-run.StartedAt != 60 {
		t.Errorf("run: %+v", run)
	}
	if p := b.scalar(t, `SELECT payload FROM task_events WHERE kind = 'claimed'`); !strings.HasPrefix(p, `{"lock": "host:1", "expires": `) || !strings.HasSuffix(p, `, "run_id": 1}`) {
		t.Errorf("payload: %s", p)
	}
}

func TestClaimWithOpenParentsPutsTheCardBack(t *testing.T) {
	b := newBoard(t)
	parent := b.make(t, NewTask{})
	child := b.make(t, NewTask{Parents: []string{parent.ID}})
	b.sql(t, `UPDATE tasks SET status = 'ready' WHERE id = ?`, child.ID) // as an old program left it
	_, err := b.Claim(t.Context(), child.ID, Claimer{})
	wantErr(t, err, ErrParentsOpen)
	b.wantStatus(t, child.ID, StatusTodo)
	if p := b.lastPayload(t, child.ID, "claim_rejected"); p["reason"] != "parents_not_done" {
		t.Errorf("payload: %v", p)
	}
	if len(b.runs(t, child.ID)) != 0 {
		t.Error("a rejected claim opened a run")
	}
}

func TestClaimNamesTheWinner(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	if _, err := b.Claim(t.Context(), card.ID, Claimer{Lock: "winner:1"}); err != nil {
		t.Fatal(err)
	}
	_, err := b.Claim(t.Context(), card.ID, Claimer{Lock: "loser:2"})
	wantErr(t, err, ErrTaken)
	if !strings.Contains(err.Error(), "winner:1") {
		t.Errorf("the loser hears only %v", err)
	}
	_, err = b.Claim(t.Context(), "t_ffffffff", Claimer{})
	wantErr(t, err, ErrNotFound)
	blocked := b.make(t, NewTask{InitialStatus: StatusBlocked})
	_, err = b.Claim(t.Context(), blocked.ID, Claimer{})
	wantErr(t, err, ErrNotReady)
}

func TestClaimClosesALeakedRun(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	old := b.mustClaim(t, card.ID)
	b.sql(t, `UPDATE tasks SET status = 'ready', claim_lock = NULL, claim_expires = NULL WHERE id = ?`, card.ID) // edited by hand
	fresh := b.mustClaim(t, card.ID)
	runs := b.runs(t, card.ID)
	if len(runs) != 2 || runs[0].ID != old || runs[0].Outcome != OutcomeReclaimed || runs[1].ID != fresh || !runs[1].Open() {
		t.Errorf("runs: %+v", runs)
	}
	b.invariants(t)
}

func TestReviewClaimGoesBackToReview(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	b.sql(t, `UPDATE tasks SET status = 'review' WHERE id = ?`, card.ID)
	_, err := b.Claim(t.Context(), card.ID, Claimer{})
	wantErr(t, err, ErrNotReady)
	claim, err := b.Claim(t.Context(), card.ID, Claimer{Review: true})
	if err != nil {
		t.Fatal(err)
	}
	if p := b.lastPayload(t, card.ID, "claimed"); p["source_status"] != "review" {
		t.Errorf("payload: %v", p)
	}
	running, err := b.Running(t.Context())
	if err != nil || len(running) != 1 || running[0].Source != StatusReview {
		t.Errorf("running: %+v, %v", running, err)
	}
	ended, err := b.EndRun(t.Context(), End{Task: card.ID, Run: claim.Run.ID, Outcome: OutcomeCrashed, Error: "x", Count: true})
	if err != nil || ended.Status != StatusReview {
		t.Errorf("ended: %+v, %v", ended, err)
	}
	// Blocked out of a review and unblocked, it goes on in review.
	claim, err = b.Claim(t.Context(), card.ID, Claimer{Review: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Block(t.Context(), card.ID, Block{Run: &claim.Run.ID, Reason: "r", Kind: BlockNeedsInput}); err != nil {
		t.Fatal(err)
	}
	if err := b.Unblock(t.Context(), card.ID, ""); err != nil {
		t.Fatal(err)
	}
	b.wantStatus(t, card.ID, StatusReview)
	ready, err := b.Ready(t.Context())
	if err != nil || len(ready) != 1 || !ready[0].Review || len(ready[0].Closed) != 2 {
		t.Errorf("ready: %+v, %v", ready, err)
	}
}

func TestExtendIsACompareAndSwap(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	claim, err := b.Claim(t.Context(), card.ID, Claimer{Lock: "h:1", TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]func() (bool, error){
		"another lock": func() (bool, error) {
			return b.Extend(t.Context(), card.ID, "h:2", claim.Run.ClaimExpires, time.Hour, nil)
		},
		"another expiry": func() (bool, error) {
			return b.Extend(t.Context(), card.ID, "h:1", claim.Run.ClaimExpires-1, time.Hour, nil)
		},
	} {
		if done, err := try(); done || err != nil {
			t.Errorf("%s: %v, %v", name, done, err)
		}
	}
	done, err := b.Extend(t.Context(), card.ID, "h:1", claim.Run.ClaimExpires, time.Hour, map[string]any{"reason": "why", "extra": 1})
	if !done || err != nil {
		t.Fatalf("extend: %v, %v", done, err)
	}
	got, run := b.get(t, card.ID), b.runs(t, card.ID)[0]
	if got.ClaimExpires < claim.Run.ClaimExpires+3500 || run.ClaimExpires != got.ClaimExpires {
		t.Errorf("expires %d on the card, %d on the run", got.ClaimExpires, run.ClaimExpires)
	}
	if p := b.scalar(t, `SELECT payload FROM task_events WHERE kind = 'claim_extended'`); !strings.HasPrefix(p, `{"reason": "why", "worker_pid": null, "claim_lock": "h:1", "claim_expires_was": `) ||
		!strings.HasSuffix(p, `"last_heartbeat_at": null, "extra": 1}`) {
		t.Errorf("payload: %s", p)
	}
}

func TestDueIsTheEarliestMoment(t *testing.T) {
	b := newBoard(t)
	if due, err := b.Due(t.Context()); err != nil || !due.IsZero() {
		t.Errorf("an empty board is due %v, %v", due, err)
	}
	slow, quick := b.make(t, NewTask{}), b.make(t, NewTask{MaxRuntimeSeconds: 5})
	claim, err := b.Claim(t.Context(), slow.ID, Claimer{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if due, err := b.Due(t.Context()); err != nil || due.Unix() != claim.Run.ClaimExpires {
		t.Errorf("due %v, %v", due, err)
	}
	claim, err = b.Claim(t.Context(), quick.ID, Claimer{TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if due, err := b.Due(t.Context()); err != nil || due.Unix() != claim.Run.StartedAt+5 {
		t.Errorf("due %v, %v", due, err)
	}
}
