package kanban

import (
	"slices"
	"testing"
	"time"

	"gatewayd/internal/problem"
)

// A form is stored whole or not at all: one field that is refused keeps the others from it.
func TestAPatchIsWholeOrNotThere(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Assignee: "dev"}).ID
	before := b.dump(t)
	for what, p := range map[string]Patch{
		"a status that cannot be":  {Title: new("other"), Priority: new(int64(9)), Status: new(StatusRunning)},
		"a provider of no model":   {Title: new("other"), Model: ModelChoice{Provider: new("p")}},
		"an assignee who is none":  {Title: new("other"), Status: new(StatusTriage), Assignee: new("null")},
		"a result of an open card": {Title: new("other"), Result: new("done")},
	} {
		if _, err := b.Patch(t.Context(), card, p); err == nil {
			t.Errorf("%s was accepted", what)
		}
		if after := b.dump(t); after != before {
			t.Fatalf("%s left something:\n%s", what, after)
		}
	}
	if _, err := b.Patch(t.Context(), card, Patch{Actor: "ann"}); !problem.Is(err, problem.Invalid) {
		t.Errorf("a patch of nothing: %v", err)
	}
	r, err := b.Patch(t.Context(), card, Patch{
		Title: new("other"), Assignee: new("critic"), Status: new(StatusDone), Summary: new("did it"), Metadata: map[string]any{"n": 1}, Actor: "ann",
	})
	got := b.get(t, card)
	if err != nil || !r.Now || got.Title != "other" || got.Assignee != "critic" || got.Status != StatusDone {
		t.Errorf("%+v, %v: %+v", r, err, got)
	}
	if runs := b.runs(t, card); len(runs) != 1 || runs[0].Summary != "did it" || string(runs[0].Metadata) != `{"n": 1}` {
		t.Errorf("runs: %+v", runs)
	}
	if kinds := b.kinds(t, card); !slices.Equal(kinds, []string{"created", "edited", "completed", "assigned"}) {
		t.Errorf("events: %v", kinds)
	}
	if _, err := b.Patch(t.Context(), card, Patch{Title: new("third"), Status: new(StatusDone)}); err != nil || b.get(t, card).Title != "third" {
		t.Errorf("a status that it has already: %v", err)
	}
}

// A running card that a form gives to another is given once its run is over, in one step with the move.
func TestAPatchTakesARunningCardOnce(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Assignee: "dev"}).ID
	b.mustClaim(t, card)
	if _, err := b.Patch(t.Context(), card, Patch{Assignee: new("critic")}); !problem.Is(err, problem.Conflict) {
		t.Errorf("given away while it runs: %v", err)
	}
	r, err := b.Patch(t.Context(), card, Patch{Assignee: new("none"), Status: new(StatusTriage), Reason: "too early", Actor: "ann"})
	if got := b.get(t, card); err != nil || !r.Now || got.Status != StatusTriage || got.Assignee != "" || got.CurrentRunID != 0 {
		t.Errorf("%+v, %v: %+v", r, err, got)
	}
	b.invariants(t)
}

func TestMomentsAndSpansAreReadAsPeopleWriteThem(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-12-24T09:30:00Z":      time.Date(2026, 12, 24, 9, 30, 0, 0, time.UTC),
		"2026-12-24T09:30:00+02:00": time.Date(2026, 12, 24, 7, 30, 0, 0, time.UTC),
		"2026-12-24 09:30":          time.Date(2026, 12, 24, 8, 30, 0, 0, time.UTC),
		"2026-07-24 09:30:15":       time.Date(2026, 7, 24, 7, 30, 15, 0, time.UTC),
		"+90m":                      now.Add(90 * time.Minute),
	} {
		if got, err := ParseDue(text, "Europe/Berlin", now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "tomorrow", "2026-13-01 09:00", "+", "+0", "-5m"} {
		if got, err := ParseDue(text, "Europe/Berlin", now); !problem.Is(err, problem.Invalid) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]time.Duration{"90": 90 * time.Second, "30s": 30 * time.Second, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "0": 0} {
		if got, err := ParseSpan(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "5x", "-5", "1.5h", "h", "99999999999999999999", "200000d", "5 m"} {
		if got, err := ParseSpan(text); !problem.Is(err, problem.Invalid) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestColumnsCountWhatHangsOnACard(t *testing.T) {
	b := newBoard(t)
	parent := b.make(t, NewTask{Assignee: "dev", Tenant: "acme"}).ID
	one := b.make(t, NewTask{Parents: []string{parent}}).ID
	b.make(t, NewTask{Parents: []string{parent}})
	odd := b.make(t, NewTask{}).ID
	b.sql(t, `UPDATE tasks SET status = 'waiting' WHERE id = ?`, odd)
	for _, step := range []func() error{
		func() error { _, err := b.Comment(t.Context(), parent, "ann", "well"); return err },
		func() error { return b.Complete(t.Context(), parent, Completion{Summary: "did it"}) },
		func() error { return b.Complete(t.Context(), one, Completion{Summary: "that too"}) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	all, err := b.Columns(t.Context(), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	all.Note([]Diagnostic{{Kind: DiagnosticFailures, Severity: SeverityError, Task: parent}, {Kind: DiagnosticCrashes, Severity: SeverityWarning}})
	faces := map[string]Face{}
	for _, column := range all.Columns {
		for _, face := range column.Tasks {
			if face.Task.Status != column.Name {
				t.Errorf("%s lies in %s", face.Task.Status, column.Name)
			}
			faces[face.Task.ID] = face
		}
	}
	got := faces[parent]
	if got.Children != 2 || got.ChildrenDone != 1 || got.Comments != 1 || got.LatestSummary != "did it" || got.Warnings == nil || len(got.Diagnostics) != 1 {
		t.Errorf("%+v", got)
	}
	if faces[one].Parents != 1 || faces[one].Warnings != nil || len(faces) != 4 || all.Columns[len(all.Columns)-1].Name != "waiting" {
		t.Errorf("%+v", all.Columns)
	}
	if !slices.Equal(all.Tenants, []string{"acme"}) || !slices.Equal(all.Assignees, []string{"dev"}) || all.LatestEvent == 0 {
		t.Errorf("%+v", all)
	}
}
