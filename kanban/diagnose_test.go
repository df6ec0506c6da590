package kanban

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/procfs"
)

// findingsOn gives the findings about one card, by kind.
func findingsOn(t *testing.T, b *Board, th Thresholds, task string) map[string]Diagnostic {
	t.Helper()
	list, err := b.Diagnose(t.Context(), th)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]Diagnostic{}
	for _, d := range list {
		if d.Task == task {
			found[d.Kind] = d
		}
	}
	return found
}

// Each case makes a card on which the kind is due, and one on which it is not yet, or not any more.
func TestEachDiagnosticIsFoundWhenItsTimeHasComeAndNotBefore(t *testing.T) {
	b := newBoard(t)
	now := time.Now().Unix()
	ago := func(d time.Duration) int64 { return now - int64(d/time.Second) }
	run := func(t *testing.T, card, outcome string, ended int64) {
		b.sql(t, `INSERT INTO task_runs (task_id, status, started_at, ended_at, outcome, error) VALUES (?, ?, ?, ?, ?, 'pid 7 exited with code 3')`, card, outcome, ended-9, ended, outcome)
		b.sql(t, `UPDATE tasks SET started_at = 1 WHERE id = ?`, card)
	}
	event := func(t *testing.T, card, kind, payload string, at int64) {
		b.sql(t, `INSERT INTO task_events (task_id, kind, payload, created_at) VALUES (?, ?, ?, ?)`, card, kind, payload, at)
	}
	old := func(t *testing.T, card string, at int64) {
		b.sql(t, `UPDATE tasks SET created_at = ? WHERE id = ?`, at, card)
		b.sql(t, `UPDATE task_events SET created_at = ? WHERE task_id = ?`, at, card)
	}
	claimed := func(t *testing.T, card, lock, print string, pid int, started, expires int64) {
		id := b.mustClaim(t, card)
		b.sql(t, `UPDATE tasks SET claim_lock = ?, worker_pid = ?, worker_started_at = ?, claim_expires = ?, started_at = ? WHERE id = ?`, lock, pid, print, expires, started, card)
		b.sql(t, `UPDATE task_runs SET started_at = ? WHERE id = ?`, started, int64(id))
	}
	gone := 1 << 22 // no kernel gives that pid out by default
	self := procfs.Fingerprint(os.Getpid())
	for _, c := range []struct {
		kind     string
		severity Severity
		due, not func(t *testing.T, card string)
	}{
		{
			DiagnosticFailures, SeverityError,
			func(t *testing.T, card string) {
				b.sql(t, `UPDATE tasks SET consecutive_failures = 2 WHERE id = ?`, card)
			},
			func(t *testing.T, card string) {
				b.sql(t, `UPDATE tasks SET consecutive_failures = 1 WHERE id = ?`, card)
			},
		},
		{
			DiagnosticFailures, SeverityCritical,
			func(t *testing.T, card string) {
				b.sql(t, `UPDATE tasks SET consecutive_failures = 4 WHERE id = ?`, card)
			},
			func(t *testing.T, card string) {
				b.sql(t, `UPDATE tasks SET consecutive_failures = 4, status = 'done', completed_at = 1 WHERE id = ?`, card)
			},
		},
		{
			DiagnosticCrashes, SeverityError,
			func(t *testing.T, card string) {
				run(t, card, OutcomeCrashed, ago(time.Hour))
				run(t, card, OutcomeCrashed, ago(time.Minute))
			},
			func(t *testing.T, card string) {
				run(t, card, OutcomeCrashed, ago(time.Hour))
				run(t, card, OutcomeReclaimed, ago(time.Minute))
			},
		},
		{
			DiagnosticStuckBlocked, SeverityWarning,
			func(t *testing.T, card string) {
				b.sql(t, `UPDATE tasks SET status = 'blocked' WHERE id = ?`, card)
				event(t, card, "blocked", `{"reason": "why"}`, ago(25*time.Hour))
			},
			func(t *testing.T, card string) {
				b.sql(t, `UPDATE tasks SET status = 'blocked' WHERE id = ?`, card)
				event(t, card, "blocked", `{"reason": "why"}`, ago(25*time.Hour))
				if _, err := b.Comment(t.Context(), card, "me", "on it"); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			DiagnosticBlockCycling, SeverityWarning,
			func(t *testing.T, card string) {
				for i := range int64(3) {
					event(t, card, "blocked", `{}`, ago(time.Hour)+2*i)
					event(t, card, "unblocked", `{}`, ago(time.Hour)+2*i+1)
				}
			},
			func(t *testing.T, card string) {
				for i := range int64(3) {
					event(t, card, "blocked", `{}`, ago(25*time.Hour)+2*i)
					event(t, card, "unblocked", `{}`, ago(25*time.Hour)+2*i+1)
				}
			},
		},
		{
			DiagnosticBlockLoop, SeverityError,
			func(t *testing.T, card string) {
				b.sql(t, `UPDATE tasks SET status = 'blocked', block_kind = 'needs_input', block_recurrences = 2 WHERE id = ?`, card)
			},
			func(t *testing.T, card string) {
				b.sql(t, `UPDATE tasks SET status = 'ready', block_kind = 'needs_input', block_recurrences = 2 WHERE id = ?`, card)
			},
		},
		{
			DiagnosticProvider, SeverityError,
			func(t *testing.T, card string) {
				run(t, card, OutcomeRateLimited, ago(time.Minute))
				b.sql(t, `UPDATE tasks SET status = 'blocked', block_kind = 'transient' WHERE id = ?`, card)
			},
			func(t *testing.T, card string) {
				b.sql(t, `UPDATE tasks SET status = 'blocked', block_kind = 'transient' WHERE id = ?`, card)
			},
		},
		{
			DiagnosticStranded, SeverityWarning,
			func(t *testing.T, card string) { old(t, card, ago(31*time.Minute)) },
			func(t *testing.T, card string) { old(t, card, ago(29*time.Minute)) },
		},
		{
			DiagnosticStranded, SeverityCritical,
			func(t *testing.T, card string) { old(t, card, ago(4*time.Hour)) },
			func(t *testing.T, card string) {
				old(t, card, ago(4*time.Hour))
				event(t, card, "unblocked", `{}`, ago(time.Minute)) // it came back a minute ago
			},
		},
		{
			DiagnosticGhost, SeverityCritical,
			func(t *testing.T, card string) { claimed(t, card, ClaimLock(), "", gone, ago(time.Hour), now+900) },
			func(t *testing.T, card string) {
				claimed(t, card, ClaimLock(), self, os.Getpid(), ago(time.Hour), now+900)
			},
		},
		{
			DiagnosticGhost, SeverityCritical, // the pid was given out again
			func(t *testing.T, card string) {
				claimed(t, card, ClaimLock(), "another-boot:1|2", os.Getpid(), ago(time.Hour), now+900)
			},
			func(t *testing.T, card string) { claimed(t, card, ClaimLock(), "", gone, now, now+900) }, // it is being started
		},
		{
			DiagnosticGhost, SeverityCritical, // of another host only the claim's time speaks
			func(t *testing.T, card string) {
				claimed(t, card, "elsewhere:1", "", 1, ago(time.Hour), ago(time.Hour))
			},
			func(t *testing.T, card string) { claimed(t, card, "elsewhere:1", "", gone, ago(time.Hour), now+1) },
		},
		{
			DiagnosticSurvivor, SeverityError,
			func(t *testing.T, card string) {
				id := b.mustClaim(t, card)
				b.sql(t, `INSERT INTO task_events (task_id, run_id, kind, created_at) VALUES (?, ?, 'reclaim_deferred', ?)`, card, int64(id), now)
			},
			func(t *testing.T, card string) { b.mustClaim(t, card) },
		},
		{
			DiagnosticHallucinatedCards, SeverityError,
			func(t *testing.T, card string) {
				event(t, card, "completion_blocked_hallucination", `{"phantom_cards": ["t_00000000"]}`, now)
			},
			func(t *testing.T, card string) {
				event(t, card, "completion_blocked_hallucination", `{"phantom_cards": ["t_00000000"]}`, now)
				event(t, card, "completed", `{}`, now)
			},
		},
		{
			DiagnosticPhantomRefs, SeverityWarning,
			func(t *testing.T, card string) {
				event(t, card, "suspected_hallucinated_references", `{"phantom_refs": ["t_00000000"]}`, now)
			},
			func(t *testing.T, card string) {
				event(t, card, "suspected_hallucinated_references", `{"phantom_refs": ["t_00000000"]}`, now)
				event(t, card, "edited", `{}`, now)
			},
		},
		{
			DiagnosticUnsettled, SeverityWarning,
			func(t *testing.T, card string) {
				run(t, card, OutcomeCompleted, ago(time.Hour))
				b.sql(t, `INSERT INTO gw_runs (run_id, task_id, keeper_id) SELECT MAX(id), task_id, 'k' FROM task_runs WHERE task_id = ?`, card)
			},
			func(t *testing.T, card string) {
				run(t, card, OutcomeCompleted, now)
				b.sql(t, `INSERT INTO gw_runs (run_id, task_id, keeper_id) SELECT MAX(id), task_id, 'k' FROM task_runs WHERE task_id = ?`, card)
			},
		},
		{
			DiagnosticTimerStuck, SeverityError,
			func(t *testing.T, card string) {
				b.sql(t, `UPDATE tasks SET status = 'scheduled' WHERE id = ?`, card)
				b.sql(t, `INSERT INTO gw_schedules (task_id, due_at) VALUES (?, ?)`, card, ago(time.Hour))
			},
			func(t *testing.T, card string) {
				b.sql(t, `UPDATE tasks SET status = 'scheduled' WHERE id = ?`, card)
				b.sql(t, `INSERT INTO gw_schedules (task_id, due_at) VALUES (?, ?)`, card, now+60)
			},
		},
		{
			DiagnosticStopUnfulfilled, SeverityError,
			func(t *testing.T, card string) {
				b.sql(t, `INSERT INTO gw_stops (run_id, task_id, reason, actor, at) VALUES (?, ?, 'enough', 'me', ?)`, int64(b.mustClaim(t, card)), card, ago(time.Hour))
			},
			func(t *testing.T, card string) {
				b.sql(t, `INSERT INTO gw_stops (run_id, task_id, reason, actor, at) VALUES (?, ?, 'enough', 'me', ?)`, int64(b.mustClaim(t, card)), card, now)
			},
		},
	} {
		due, not := b.make(t, NewTask{Assignee: "lane"}), b.make(t, NewTask{Assignee: "lane"})
		c.due(t, due.ID)
		c.not(t, not.ID)
		f, found := findingsOn(t, b, Thresholds{}, due.ID)[c.kind]
		if !found || f.Severity != c.severity || f.Title == "" || f.Detail == "" || f.First == 0 || f.Last < f.First || f.Count < 1 || len(f.Actions) == 0 {
			t.Errorf("%s, %s: found %v: %+v", c.kind, c.severity, found, f)
		}
		if n := slices.IndexFunc(f.Actions, func(a Action) bool { return a.Suggested }); n < 0 && c.kind != DiagnosticFailures && c.kind != DiagnosticCrashes {
			t.Errorf("%s suggests nothing: %+v", c.kind, f.Actions)
		}
		if f, found := findingsOn(t, b, Thresholds{}, not.ID)[c.kind]; found {
			t.Errorf("%s is found too early or too late: %+v", c.kind, f)
		}
	}
}

func TestABoardThatWasPausedAndForgottenIsFound(t *testing.T) {
	b := newBoard(t)
	if err := b.Pause(t.Context(), Pause{Mode: PauseStarts, Reason: "the roof leaks", By: "me"}); err != nil {
		t.Fatal(err)
	}
	if f := findingsOn(t, b, Thresholds{}, ""); len(f) != 0 {
		t.Errorf("just paused: %+v", f)
	}
	since := time.Now().Add(-25 * time.Hour).Unix()
	b.sql(t, `UPDATE gw_pause SET since = ?`, since)
	f := findingsOn(t, b, Thresholds{}, "")[DiagnosticPausedLong]
	if f.Severity != SeverityWarning || f.First != since || !strings.Contains(f.Title, "25 h") || f.Detail != "by me: the roof leaks" ||
		len(f.Actions) != 1 || f.Actions[0].Payload["command"] != "gatewayd kanban resume" {
		t.Errorf("%+v", f)
	}
	if f := findingsOn(t, b, Thresholds{Paused: 26 * time.Hour}, ""); len(f) != 0 {
		t.Errorf("before its time: %+v", f)
	}
	if err := b.Resume(t.Context(), "me"); err != nil {
		t.Fatal(err)
	}
	if f := findingsOn(t, b, Thresholds{}, ""); len(f) != 0 {
		t.Errorf("resumed: %+v", f)
	}
}

func TestTheWorstFindingComesFirstAndIsSummedUpByCard(t *testing.T) {
	b := newBoard(t)
	for i := range 3 {
		card := b.make(t, NewTask{Assignee: "lane"})
		b.sql(t, `UPDATE tasks SET consecutive_failures = ? WHERE id = ?`, 2*i, card.ID)
	}
	list, err := b.Diagnose(t.Context(), Thresholds{})
	if err != nil || len(list) != 2 || list[0].Severity != SeverityCritical || list[1].Severity != SeverityError {
		t.Fatalf("%+v, %v", list, err)
	}
	list = append(list, Diagnostic{Task: list[0].Task, Kind: "x", Severity: SeverityWarning, Last: list[0].Last + 5})
	w := WarningsByCard(list)[list[0].Task]
	if w.Count != 2 || w.Severity != SeverityCritical || w.Latest != list[0].Last+5 || fmt.Sprint(w.Kinds) != "[repeated_failures x]" {
		t.Errorf("%+v", w)
	}
}
