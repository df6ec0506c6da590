package kanban

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

func TestCompletedCardHasItsRunAndLetsChildrenGo(t *testing.T) {
	b := newBoard(t)
	parent := b.make(t, NewTask{Assignee: "dev"})
	other := b.make(t, NewTask{})
	child := b.make(t, NewTask{Parents: []string{parent.ID}})
	both := b.make(t, NewTask{Parents: []string{parent.ID, other.ID}})
	run := b.mustClaim(t, parent.ID)
	err := b.Complete(t.Context(), parent.ID, Completion{Run: &run, Result: "ré", Summary: " first line \nsecond", Metadata: map[string]any{"z": 1, "a": []string{"ü"}}})
	if err != nil {
		t.Fatal(err)
	}
	got, row := b.get(t, parent.ID), b.runs(t, parent.ID)[0]
	if got.Status != StatusDone || got.Result != "ré" || got.CompletedAt == 0 || got.ClaimLock != "" || got.CurrentRunID != 0 {
		t.Errorf("card: %+v", got)
	}
	if row.Outcome != OutcomeCompleted || row.Status != "done" || row.Summary != "first line \nsecond" || string(row.Metadata) != `{"a": ["ü"], "z": 1}` || row.ClaimLock == "" {
		t.Errorf("run: %+v", row)
	}
	if p := b.scalar(t, `SELECT payload FROM task_events WHERE kind = 'completed'`); p != `{"result_len": 2, "summary": "first line"}` {
		t.Errorf("payload: %s", p)
	}
	b.wantStatus(t, child.ID, StatusReady)
	b.wantStatus(t, both.ID, StatusTodo)
	b.invariants(t)
}

func TestCompletionOfACardNobodyRanKeepsItsSummary(t *testing.T) {
	b := newBoard(t)
	for _, status := range []Status{StatusReady, StatusBlocked, StatusReview} {
		card := b.make(t, NewTask{Assignee: "me"})
		b.sql(t, `UPDATE tasks SET status = ?, block_kind = 'transient', block_recurrences = 3 WHERE id = ?`, string(status), card.ID)
		if err := b.Complete(t.Context(), card.ID, Completion{Summary: "by hand"}); err != nil {
			t.Fatal(err)
		}
		runs := b.runs(t, card.ID)
		if len(runs) != 1 || runs[0].StartedAt != runs[0].EndedAt || runs[0].Summary != "by hand" || runs[0].Profile != "me" {
			t.Errorf("%s: runs %+v", status, runs)
		}
		if got := b.get(t, card.ID); got.BlockKind != "" || got.BlockRecurrences != 0 {
			t.Errorf("%s: block is remembered: %+v", status, got)
		}
	}
}

func TestCompletionIsRefusedInOtherStates(t *testing.T) {
	b := newBoard(t)
	for _, status := range []Status{StatusTriage, StatusTodo, StatusScheduled, StatusDone, StatusArchived, "from_the_future"} {
		card := b.make(t, NewTask{})
		b.sql(t, `UPDATE tasks SET status = ? WHERE id = ?`, string(status), card.ID)
		err := b.Complete(t.Context(), card.ID, Completion{Summary: "s"})
		if wantErr(t, err, ErrConflict); !problem.Is(err, problem.Conflict) {
			t.Errorf("%s: %v", status, err)
		}
		b.wantStatus(t, card.ID, status)
	}
	parent := b.make(t, NewTask{})
	child := b.make(t, NewTask{Parents: []string{parent.ID}})
	b.sql(t, `UPDATE tasks SET status = 'blocked' WHERE id = ?`, child.ID)
	wantErr(t, b.Complete(t.Context(), child.ID, Completion{Summary: "s"}), ErrParentsOpen)
	wantErr(t, b.Complete(t.Context(), "t_none", Completion{Summary: "s"}), ErrNotFound)
}

func TestCompletionWithNothingToShowIsRefused(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	run := b.mustClaim(t, card.ID)
	err := b.Complete(t.Context(), card.ID, Completion{Run: &run, Summary: " \n", Metadata: map[string]any{}})
	wantErr(t, err, ErrNoEvidence)
	b.wantStatus(t, card.ID, StatusRunning)
	if kinds := b.kinds(t, card.ID); kinds[len(kinds)-1] != "completion_blocked_empty_result" {
		t.Errorf("history: %v", kinds)
	}
	if err := b.Complete(t.Context(), card.ID, Completion{Run: &run, Metadata: map[string]any{"pr": 1}}); err != nil {
		t.Errorf("metadata is something to show: %v", err)
	}
	// A reviewer need not say anything.
	card = b.make(t, NewTask{})
	b.sql(t, `UPDATE tasks SET status = 'review' WHERE id = ?`, card.ID)
	claim, err := b.Claim(t.Context(), card.ID, Claimer{Review: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Complete(t.Context(), card.ID, Completion{Run: &claim.Run.ID}); err != nil {
		t.Errorf("a review was refused: %v", err)
	}
}

func TestPhantomCardsRefuseACompletion(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Assignee: "dev"})
	byLane := b.make(t, NewTask{CreatedBy: "dev"})
	byCard := b.make(t, NewTask{CreatedBy: card.ID})
	child := b.make(t, NewTask{CreatedBy: "user", Parents: []string{card.ID}})
	foreign := b.make(t, NewTask{CreatedBy: "user"})
	run := b.mustClaim(t, card.ID)
	before := b.get(t, card.ID)
	claimed := []string{byLane.ID, foreign.ID, byCard.ID, "t_deadbeef", byLane.ID, child.ID}
	err := b.Complete(t.Context(), card.ID, Completion{Run: &run, Summary: "made cards", CreatedCards: claimed})
	wantErr(t, err, ErrPhantomCards)
	if !strings.Contains(err.Error(), foreign.ID) || !strings.Contains(err.Error(), "t_deadbeef") || strings.Contains(err.Error(), byLane.ID) {
		t.Errorf("the error names the wrong cards: %v", err)
	}
	if after := b.get(t, card.ID); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the card changed: %+v", after)
	}
	p := b.lastPayload(t, card.ID, "completion_blocked_hallucination")
	if fmt.Sprint(p["phantom_cards"]) != fmt.Sprint([]any{foreign.ID, "t_deadbeef"}) ||
		fmt.Sprint(p["verified_cards"]) != fmt.Sprint([]any{byLane.ID, byCard.ID, child.ID}) || p["summary_preview"] != "made cards" {
		t.Errorf("audit: %v", p)
	}
	err = b.Complete(t.Context(), card.ID, Completion{Run: &run, Summary: "made cards", CreatedCards: []string{byLane.ID, byCard.ID, child.ID}})
	if err != nil {
		t.Fatal(err)
	}
	if p := b.lastPayload(t, card.ID, "completed"); len(p["verified_cards"].([]any)) != 3 {
		t.Errorf("completed: %v", p)
	}
	b.wantStatus(t, child.ID, StatusReady)
}

func TestACardOfNobodyHasNoLaneToClaimCardsBy(t *testing.T) {
	b := newBoard(t)
	card, stray := b.make(t, NewTask{}), b.make(t, NewTask{})
	b.sql(t, `UPDATE tasks SET created_by = '' WHERE id = ?`, stray.ID)
	run := b.mustClaim(t, card.ID)
	wantErr(t, b.Complete(t.Context(), card.ID, Completion{Run: &run, Summary: "s", CreatedCards: []string{stray.ID}}), ErrPhantomCards)
}

func TestInventedIdsInProseAreNoted(t *testing.T) {
	b := newBoard(t)
	card, real := b.make(t, NewTask{}), b.make(t, NewTask{})
	summary := fmt.Sprintf("see t_0123abcd, %s, %s, t_0123abcd and xt_99999999 or t_123", card.ID, real.ID)
	if err := b.Complete(t.Context(), card.ID, Completion{Summary: summary, Result: "(t_00000000ffff)"}); err != nil {
		t.Fatal(err)
	}
	if p := b.scalar(t, `SELECT payload FROM task_events WHERE kind = 'suspected_hallucinated_references'`); p != `{"phantom_refs": ["t_0123abcd", "t_00000000ffff"], "source": "completion_summary"}` {
		t.Errorf("payload: %s", p)
	}
	if err := b.Complete(t.Context(), real.ID, Completion{Summary: "nothing invented: " + card.ID}); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(b.kinds(t, real.ID), "suspected_hallucinated_references") {
		t.Error("a real id was taken for an invented one")
	}
}

func TestCompletionContract(t *testing.T) {
	pr := "https://github.com/o/r/pull/7"
	for name, c := range map[string]struct {
		contract string
		meta     map[string]any
		ok       bool
		bound    string
	}{
		"none":        {"", nil, true, ""},
		"local":       {"local-only", nil, true, "local-only"},
		"repo":        {"O/r", map[string]any{"published_pr": pr}, true, pr},
		"missing":     {"o/r", nil, false, ""},
		"not a URL":   {"o/r", map[string]any{"published_pr": "7"}, false, ""},
		"other repo":  {"o/x", map[string]any{"published_pr": pr}, false, ""},
		"bound":       {pr, map[string]any{"published_pr": pr + "/"}, true, pr},
		"bound other": {pr, map[string]any{"published_pr": "https://github.com/o/r/pull/8"}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(t)
			card := b.make(t, NewTask{CompletionContract: c.contract})
			err := b.Complete(t.Context(), card.ID, Completion{Summary: "s", Metadata: c.meta})
			if (err == nil) != c.ok {
				t.Fatalf("complete: %v", err)
			}
			if got := b.get(t, card.ID); c.ok && got.CompletionContract != c.bound {
				t.Errorf("contract: %q", got.CompletionContract)
			}
			if slices.Contains(b.kinds(t, card.ID), "pr_acceptance") != (c.ok && c.bound == pr) {
				t.Errorf("history: %v", b.kinds(t, card.ID))
			}
		})
	}
}
