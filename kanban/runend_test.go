package kanban

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func (b *Board) fail(t *testing.T, card string, end End) Ended {
	t.Helper()
	end.Task, end.Run = card, b.mustClaim(t, card)
	ended, err := b.EndRun(t.Context(), end)
	if err != nil {
		t.Fatal(err)
	}
	b.invariants(t)
	return ended
}

func TestBreakerTripsAtTheLimit(t *testing.T) {
	two, five := int64(2), int64(5)
	for name, c := range map[string]struct {
		retries *int64
		limit   int
		want    int // failures that block
		source  string
	}{
		"default":             {nil, 0, DefaultFailureLimit, "dispatcher"},
		"dispatcher":          {nil, 3, 3, "dispatcher"},
		"the card's own":      {&two, 7, 2, "task"},
		"the card's own more": {&five, 1, 5, "task"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(t)
			card := b.make(t, NewTask{MaxRetries: c.retries})
			for i := 1; i < c.want; i++ {
				ended := b.fail(t, card.ID, End{Outcome: OutcomeCrashed, Error: "boom", Count: true, Limit: c.limit, Payload: map[string]any{"pid": 9, "claimer": "h:1"}})
				if ended != (Ended{Status: StatusReady, Failures: i}) {
					t.Fatalf("failure %d: %+v", i, ended)
				}
			}
			ended := b.fail(t, card.ID, End{Outcome: OutcomeTimedOut, Error: "elapsed 9s > limit 5s", Count: true, Limit: c.limit})
			if ended != (Ended{Status: StatusBlocked, Failures: c.want, GaveUp: true}) {
				t.Fatalf("the last failure: %+v", ended)
			}
			got := b.get(t, card.ID)
			if got.Status != StatusBlocked || got.LastFailureError != "elapsed 9s > limit 5s" || got.ConsecutiveFailures != int64(c.want) {
				t.Errorf("card: %+v", got)
			}
			p := b.lastPayload(t, card.ID, "gave_up")
			if p["failures"] != float64(c.want) || p["effective_limit"] != float64(c.want) || p["limit_source"] != c.source || p["trigger_outcome"] != "timed_out" {
				t.Errorf("gave_up: %v", p)
			}
			if kinds := b.kinds(t, card.ID); kinds[len(kinds)-2] != "timed_out" {
				t.Errorf("history: %v", kinds)
			}
			if err := b.Unblock(t.Context(), card.ID, "try again"); err != nil {
				t.Fatal(err)
			}
			if got := b.get(t, card.ID); got.Status != StatusReady || got.ConsecutiveFailures != 0 || got.LastFailureError != "" {
				t.Errorf("unblocked card: %+v", got)
			}
		})
	}
}

func TestWhatDoesNotCountDoesNotTrip(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	for _, outcome := range []string{OutcomeRateLimited, OutcomeStale, OutcomeReclaimed, OutcomeRateLimited} {
		if ended := b.fail(t, card.ID, End{Outcome: outcome, Error: outcome + "!"}); ended != (Ended{Status: StatusReady}) {
			t.Errorf("%s: %+v", outcome, ended)
		}
	}
	if got := b.get(t, card.ID); got.LastFailureError != "rate_limited!" || got.ConsecutiveFailures != 0 {
		t.Errorf("card: %+v", got)
	}
	if got := b.runs(t, card.ID); len(got) != 4 || got[1].Status != OutcomeStale || got[1].Error != "stale!" {
		t.Errorf("runs: %+v", got)
	}
}

func TestSuccessIsAFreshStart(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	b.fail(t, card.ID, End{Outcome: OutcomeCrashed, Error: "x", Count: true})
	if err := b.Complete(t.Context(), card.ID, Completion{Summary: "by hand"}); err != nil {
		t.Fatal(err)
	}
	if got := b.get(t, card.ID); got.ConsecutiveFailures != 0 || got.LastFailureError != "" {
		t.Errorf("card: %+v", got)
	}
}

func TestTripNowIsStickyWhereSaid(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	ended := b.fail(t, card.ID, End{Outcome: OutcomeCrashed, Error: "no such model", Count: true, TripNow: true, Sticky: true})
	if !ended.GaveUp || ended.Failures != 1 || b.lastPayload(t, card.ID, "gave_up")["sticky"] != true {
		t.Errorf("ended: %+v", ended)
	}
}

func TestSpawnFailures(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	end := End{Outcome: OutcomeSpawnFailed, Error: strings.Repeat("é", 600), Count: true}
	b.fail(t, card.ID, end)
	p := b.lastPayload(t, card.ID, "spawn_failed")
	if p["failures"] != 1.0 || len([]rune(p["error"].(string))) != maxError {
		t.Errorf("payload: %v", p)
	}
	b.fail(t, card.ID, end)
	runs := b.runs(t, card.ID)
	if runs[0].Outcome != OutcomeSpawnFailed || runs[1].Outcome != OutcomeGaveUp {
		t.Errorf("runs: %s, %s", runs[0].Outcome, runs[1].Outcome)
	}
	if kinds := b.kinds(t, card.ID); slices.Contains(kinds[4:], "spawn_failed") {
		t.Errorf("history: %v", kinds)
	}
}

func violation() End {
	return End{Outcome: OutcomeCrashed, EventKind: EventProtocolViolation, Error: "exit 0 without a verdict", Payload: map[string]any{"exit_code": 0}}
}

func TestThreeProtocolViolationsInARowBlock(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	for i := 1; i <= 2; i++ {
		if ended := b.fail(t, card.ID, violation()); ended != (Ended{Status: StatusReady, Streak: i}) {
			t.Fatalf("violation %d: %+v", i, ended)
		}
		// Neither a rate limit between them nor the failure counter matters.
		b.fail(t, card.ID, End{Outcome: OutcomeRateLimited, Error: "429"})
	}
	ended := b.fail(t, card.ID, violation())
	if ended != (Ended{Status: StatusBlocked, Streak: 3, GaveUp: true}) {
		t.Fatalf("third violation: %+v", ended)
	}
	p := b.lastPayload(t, card.ID, "gave_up")
	if p["sticky"] != true || p["failures"] != 3.0 || p["effective_limit"] != 3.0 {
		t.Errorf("gave_up: %v", p)
	}
	if got := b.runs(t, card.ID)[0]; string(got.Metadata) != `{"protocol_violation": true}` || got.Outcome != OutcomeCrashed {
		t.Errorf("run: %+v", got)
	}
}

func TestAnotherEndBreaksTheStreak(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	b.fail(t, card.ID, violation())
	b.fail(t, card.ID, violation())
	b.fail(t, card.ID, End{Outcome: OutcomeCrashed, Error: "x", Count: true})
	if ended := b.fail(t, card.ID, violation()); ended.Streak != 1 || ended.GaveUp {
		t.Errorf("after another end: %+v", ended)
	}
}

func TestOneRetryOverridesTheStreak(t *testing.T) {
	b := newBoard(t)
	one := int64(1)
	card := b.make(t, NewTask{MaxRetries: &one})
	if ended := b.fail(t, card.ID, violation()); !ended.GaveUp {
		t.Errorf("ended: %+v", ended)
	}
}

func TestOperatorReclaimIsAFreshStart(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	b.fail(t, card.ID, End{Outcome: OutcomeCrashed, Error: "x", Count: true})
	b.fail(t, card.ID, End{Outcome: OutcomeReclaimed, Payload: map[string]any{"manual": true, "reason": "why"}, Reset: true})
	if got := b.get(t, card.ID); got.ConsecutiveFailures != 0 || got.LastFailureError != "" || got.Status != StatusReady {
		t.Errorf("card: %+v", got)
	}
}

func TestSeveralOpenRunsAreReconciled(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	run := b.mustClaim(t, card.ID)
	b.sql(t, `INSERT INTO task_runs (task_id, status, started_at) VALUES (?, 'running', 1), (?, 'running', 2)`, card.ID, card.ID)
	if err := b.Complete(t.Context(), card.ID, Completion{Run: &run, Summary: "s"}); err != nil {
		t.Fatal(err)
	}
	if got := b.scalar(t, `SELECT group_concat(outcome, ' ') FROM (SELECT outcome FROM task_runs ORDER BY id)`); got != "completed reclaimed reclaimed" {
		t.Errorf("runs: %s", got)
	}
	b.invariants(t)
}

func TestReconcileFreesHalfAClaimOnly(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	b.mustClaim(t, card.ID)
	if done, err := b.Reconcile(t.Context(), card.ID); done || err != nil {
		t.Errorf("a whole claim was freed: %v, %v", done, err)
	}
	b.sql(t, `UPDATE tasks SET claim_lock = NULL WHERE id = ?`, card.ID)
	if done, err := b.Reconcile(t.Context(), card.ID); !done || err != nil {
		t.Fatalf("reconcile: %v, %v", done, err)
	}
	b.wantStatus(t, card.ID, StatusReady)
	if kinds := fmt.Sprint(b.kinds(t, card.ID)); !strings.Contains(kinds, "commented reconciled") {
		t.Errorf("history: %s", kinds)
	}
	b.invariants(t)
}
