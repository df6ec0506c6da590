package kanban

import (
	"slices"
	"testing"

	"gatewayd/internal/problem"
)

func TestAReviewGoesToItsReviewerAndBack(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Assignee: "dev"}).ID
	run := b.mustClaim(t, card)
	err := b.RequestReview(t.Context(), card, Review{
		Run: &run, Summary: "done\nmore", Reviewer: "@Critic", Metadata: map[string]any{"tests": 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.get(t, card); got.Status != StatusReview || got.Assignee != "critic" {
		t.Errorf("the card is %s and %q's", got.Status, got.Assignee)
	}
	if p := b.scalar(t, `SELECT payload FROM task_events WHERE kind = 'review_requested'`); p != `{"summary": "done", "implementer": "dev", "reviewer": "critic", "artifacts": []}` {
		t.Errorf("payload: %s", p)
	}
	if r := b.runs(t, card)[0]; r.Outcome != "review_requested" || r.Status != "review" || r.Summary != "done\nmore" || string(r.Metadata) != `{"tests": 3}` {
		t.Errorf("run: %+v", r)
	}
	claim, err := b.Claim(t.Context(), card, Claimer{Review: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.RequestChanges(t.Context(), card, &claim.Run.ID, " "); !problem.Is(err, problem.Invalid) {
		t.Errorf("changes without a word: %v", err)
	}
	if err := b.RequestChanges(t.Context(), card, &claim.Run.ID, "no tests"); err != nil {
		t.Fatal(err)
	}
	if got := b.get(t, card); got.Status != StatusReady || got.Assignee != "dev" {
		t.Errorf("the card is %s and %q's", got.Status, got.Assignee)
	}
	if p := b.scalar(t, `SELECT payload FROM task_events WHERE kind = 'changes_requested'`); p != `{"reason": "no tests", "implementer": "dev", "reviewer": "critic", "status": "ready"}` {
		t.Errorf("payload: %s", p)
	}
	if r := b.runs(t, card)[1]; r.Outcome != "changes_requested" || r.Status != "ready" || r.Summary != "no tests" {
		t.Errorf("run: %+v", r)
	}
	b.invariants(t)
}

func TestAReviewerWhoPassesACardOnKeepsItsImplementer(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Assignee: "dev"}).ID
	for _, reviewer := range []string{"critic", "boss"} {
		claim, err := b.Claim(t.Context(), card, Claimer{Review: reviewer == "boss"})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.RequestReview(t.Context(), card, Review{Run: &claim.Run.ID, Summary: "s", Reviewer: reviewer}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.RequestChanges(t.Context(), card, nil, "no"); err != nil {
		t.Fatal(err)
	}
	if got := b.get(t, card); got.Status != StatusReady || got.Assignee != "dev" {
		t.Errorf("the card is %s and %q's", got.Status, got.Assignee)
	}
	b.invariants(t)
}

func TestChangesOfACardWithAnOpenParentWaitForIt(t *testing.T) {
	b := newBoard(t)
	card := b.inStatus(t, StatusReview)
	if err := b.Link(t.Context(), b.make(t, NewTask{}).ID, card); err != nil {
		t.Fatal(err)
	}
	if err := b.RequestChanges(t.Context(), card, nil, "no"); err != nil {
		t.Fatal(err)
	}
	if got := b.get(t, card); got.Status != StatusTodo || got.Assignee != "dev" {
		t.Errorf("the card is %s and %q's", got.Status, got.Assignee)
	}
}

func TestWhoMayAskForAReviewAndForChanges(t *testing.T) {
	b := newBoard(t)
	card, stale, current := supersede(t, b)
	wantErr(t, b.RequestReview(t.Context(), card, Review{Run: &stale, Summary: "s"}), ErrStaleRun)
	wantErr(t, b.RequestChanges(t.Context(), card, &stale, "r"), ErrStaleRun)
	if err := b.RequestReview(t.Context(), card, Review{Run: &current}); !problem.Is(err, problem.Invalid) {
		t.Errorf("a worker with nothing to show: %v", err)
	}
	if err := b.RequestChanges(t.Context(), card, &current, "r"); !problem.Is(err, problem.Conflict) {
		t.Errorf("changes of what is in no review: %v", err)
	}
	lived := b.make(t, NewTask{}).ID
	b.withWorker(t, lived, Claimer{})
	wantErr(t, b.RequestReview(t.Context(), lived, Review{Summary: "s"}), ErrLiveClaim)
	_, err := b.Schedule(t.Context(), lived, Schedule{})
	wantErr(t, err, ErrLiveClaim)
	for _, s := range []Status{StatusTriage, StatusTodo, StatusScheduled, StatusBlocked, StatusDone, StatusArchived} {
		if err := b.RequestReview(t.Context(), b.inStatus(t, s), Review{}); !problem.Is(err, problem.Conflict) {
			t.Errorf("a review of what is %s: %v", s, err)
		}
	}
}

func TestAReviewIsReopened(t *testing.T) {
	b := newBoard(t)
	for _, s := range []Status{StatusReady, StatusBlocked, StatusScheduled, StatusDone} {
		card := b.make(t, NewTask{Assignee: "dev"}).ID
		if err := b.RequestReview(t.Context(), card, Review{Summary: "s", Reviewer: "critic"}); err != nil {
			t.Fatal(err)
		}
		if err := b.RequestChanges(t.Context(), card, nil, "no"); err != nil {
			t.Fatal(err)
		}
		var err error
		switch s {
		case StatusBlocked:
			err = b.Block(t.Context(), card, Block{Reason: "r"})
		case StatusScheduled:
			_, err = b.Schedule(t.Context(), card, Schedule{})
		case StatusDone:
			err = b.Complete(t.Context(), card, Completion{Summary: "s"})
		}
		if err != nil {
			t.Fatal(err)
		}
		child := b.make(t, NewTask{Parents: []string{card}}).ID
		if err := b.ReopenReview(t.Context(), card, "look again"); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		if got := b.get(t, card); got.Status != StatusReview || got.Assignee != "critic" || got.CompletedAt != 0 {
			t.Errorf("%s: the card is %s and %q's", s, got.Status, got.Assignee)
		}
		if p := b.lastPayload(t, card, "review_reopened"); p["from"] != string(s) || p["reviewer"] != "critic" || p["reason"] != "look again" {
			t.Errorf("%s: payload %v", s, p)
		}
		b.wantStatus(t, child, StatusTodo)
	}
	for _, s := range []Status{StatusTriage, StatusRunning, StatusReview, StatusArchived} {
		if err := b.ReopenReview(t.Context(), b.inStatus(t, s), ""); !problem.Is(err, problem.Conflict) {
			t.Errorf("%s: %v", s, err)
		}
	}
	wantErr(t, b.ReopenReview(t.Context(), b.inStatus(t, StatusTodo), ""), ErrParentsOpen)
	b.invariants(t)
}

func TestPromotionByHand(t *testing.T) {
	b := newBoard(t)
	blocked := b.inStatus(t, StatusBlocked)
	b.sql(t, `UPDATE tasks SET consecutive_failures = 5 WHERE id = ?`, blocked)
	if err := b.PromoteByHand(t.Context(), blocked, "go", "ann", false); err != nil {
		t.Fatal(err)
	}
	if got := b.get(t, blocked); got.Status != StatusReady || got.ConsecutiveFailures != 0 {
		t.Errorf("the card is %s with %d failures", got.Status, got.ConsecutiveFailures)
	}
	if p := b.scalar(t, `SELECT payload FROM task_events WHERE kind = 'promoted_manual'`); p != `{"actor": "ann", "reason": "go"}` {
		t.Errorf("payload: %s", p)
	}
	waiting := b.inStatus(t, StatusTodo)
	wantErr(t, b.PromoteByHand(t.Context(), waiting, "", "", false), ErrParentsOpen)
	if err := b.PromoteByHand(t.Context(), waiting, "", "", true); err != nil {
		t.Fatal(err)
	}
	if kinds := b.kinds(t, waiting); !slices.Equal(kinds[len(kinds)-2:], []string{"unlinked", "promoted_manual"}) {
		t.Errorf("events: %v", kinds)
	}
	b.mustClaim(t, waiting)
	for _, s := range []Status{StatusTriage, StatusScheduled, StatusReady, StatusRunning, StatusReview, StatusDone, StatusArchived} {
		if err := b.PromoteByHand(t.Context(), b.inStatus(t, s), "", "", true); !problem.Is(err, problem.Conflict) {
			t.Errorf("%s: %v", s, err)
		}
	}
	b.invariants(t)
}
