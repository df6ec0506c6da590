package kanban

import (
	"slices"
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

func TestSpecifyTurnsAnIdeaIntoACard(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Title: "idea", Body: "rough", Triage: true}).ID
	err := b.Specify(t.Context(), card, Specification{Title: new(" precise \xff"), Body: new("rough"), Assignee: new("@Dev"), Author: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.get(t, card); got.Title != "precise \uFFFD" || got.Body != "rough" || got.Assignee != "dev" || got.Status != StatusReady {
		t.Errorf("%+v", got)
	}
	if p := b.scalar(t, `SELECT payload FROM task_events WHERE kind = 'specified'`); p != `{"changed_fields": ["title", "assignee"], "author": "ann"}` {
		t.Errorf("payload: %s", p)
	}
	if kinds := b.kinds(t, card); !slices.Equal(kinds, []string{"created", "specified", "promoted"}) {
		t.Errorf("events: %v", kinds)
	}
	if err := b.Specify(t.Context(), card, Specification{}); !problem.Is(err, problem.Conflict) {
		t.Errorf("twice: %v", err)
	}
	waiting := b.make(t, NewTask{Triage: true, Parents: []string{card}}).ID
	if err := b.Specify(t.Context(), waiting, Specification{Title: new(" ")}); !problem.Is(err, problem.Invalid) {
		t.Errorf("without a title: %v", err)
	}
	if err := b.Specify(t.Context(), waiting, Specification{}); err != nil {
		t.Fatal(err)
	}
	b.wantStatus(t, waiting, StatusTodo)
}

func TestDecomposeMakesPartsOnceAndTheCardWaitsForThem(t *testing.T) {
	b := newBoard(t)
	two := int64(2)
	root := b.make(t, NewTask{Title: "big", Triage: true, Tenant: "x", MaxRetries: &two, MaxRuntimeSeconds: 60, ModelOverride: "m", SessionID: "s"}).ID
	b.sql(t, `INSERT INTO kanban_notify_subs (task_id, platform, chat_id, created_at) VALUES (?, 'p', 'c', 1)`, root)
	made, err := b.Decompose(t.Context(), root, Decomposition{
		Children:     []NewTask{{Title: "one", Assignee: "dev"}, {Title: "two", Parents: []string{"#1"}}},
		RootAssignee: "chief", Author: "ann",
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(made) != 2 || made[0].Status != StatusReady || made[1].Status != StatusTodo {
		t.Fatalf("made %+v", made)
	}
	for _, part := range made {
		if part.Tenant != "x" || *part.MaxRetries != 2 || part.MaxRuntimeSeconds != 60 || part.ModelOverride != "m" || part.SessionID != "s" || part.CreatedBy != "ann" {
			t.Errorf("part: %+v", part)
		}
		if p := b.lastPayload(t, part.ID, "created"); p["by"] != "ann" || p["from_decompose_of"] != root {
			t.Errorf("payload: %v", p)
		}
		if p := b.lastPayload(t, part.ID, "linked"); p["parent"] != part.ID || p["child"] != root {
			t.Errorf("payload: %v", p)
		}
		if n := b.scalar(t, `SELECT COUNT(*) FROM kanban_notify_subs WHERE task_id = ?`, part.ID); n != "1" {
			t.Errorf("%s subscriptions", n)
		}
	}
	if got := b.get(t, root); got.Status != StatusTodo || got.Assignee != "chief" {
		t.Errorf("the card is %s and %q's", got.Status, got.Assignee)
	}
	if p := b.scalar(t, `SELECT payload FROM task_events WHERE kind = 'decomposed'`); p != `{"child_ids": ["`+made[0].ID+`", "`+made[1].ID+`"], "root_assignee": "chief", "author": "ann"}` {
		t.Errorf("payload: %s", p)
	}
	for _, part := range made {
		if err := b.Complete(t.Context(), part.ID, Completion{Summary: "s"}); err != nil {
			t.Fatal(err)
		}
	}
	b.wantStatus(t, root, StatusReady)
	b.invariants(t)
	if _, err := b.Move(t.Context(), root, StatusTriage, Movement{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Decompose(t.Context(), root, Decomposition{Children: []NewTask{{Title: "x"}}}); !problem.Is(err, problem.Conflict) {
		t.Errorf("a second time: %v", err)
	}
}

func TestADecompositionIsMadeWholeOrNotAtAll(t *testing.T) {
	b := newBoard(t)
	root := b.make(t, NewTask{Triage: true}).ID
	below := b.make(t, NewTask{Parents: []string{root}}).ID
	before := b.dump(t)
	for name, children := range map[string][]NewTask{
		"none": nil, "too many": make([]NewTask, maxChildren+1), "itself": {{Title: "a", Parents: []string{"#1"}}},
		"later": {{Title: "a", Parents: []string{"#2"}}, {Title: "b"}}, "no number": {{Title: "a", Parents: []string{"#x"}}},
		"no title": {{Title: "a"}, {Title: " "}}, "unknown parent": {{Title: "a"}, {Title: "b", Parents: []string{"t_00000000"}}},
		"circle": {{Title: "a", Parents: []string{below}}}, "root as parent": {{Title: "a", Parents: []string{root}}},
	} {
		if made, err := b.Decompose(t.Context(), root, Decomposition{Children: children}); err == nil {
			t.Errorf("%s: %+v", name, made)
		} else if problem.KindOf(err) == problem.Internal {
			t.Errorf("%s: %v", name, err)
		}
		if b.dump(t) != before {
			t.Errorf("%s changed the board", name)
		}
	}
}

func TestEditSaysWhatItChanged(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Title: "a", Tenant: "x"}).ID
	b.sql(t, `UPDATE tasks SET consecutive_failures = 1, last_failure_error = '429' WHERE id = ?`, card)
	none, seven, sixty := int64(0), int64(7), int64(60)
	skills := []string{" go ", "go"}
	steps := []struct {
		edit   Edit
		events []string
		fields string
	}{
		{Edit{Title: new("a "), Priority: &none}, nil, ""},
		{Edit{Tenant: new("")}, []string{"edited"}, `{"fields": ["tenant"]}`},
		{Edit{Title: new("b"), Body: new("c"), Priority: &seven}, []string{"edited", "reprioritized"}, `{"fields": ["title", "body"]}`},
		{Edit{MaxRuntimeSeconds: &sixty, MaxRetries: &seven, Skills: &skills}, []string{"edited"}, `{"fields": ["max_runtime_seconds", "max_retries", "skills"]}`},
		{Edit{MaxRuntimeSeconds: &none, MaxRetries: &none}, []string{"edited"}, `{"fields": ["max_runtime_seconds", "max_retries"]}`},
	}
	for i, s := range steps {
		had := len(b.kinds(t, card))
		if err := b.Edit(t.Context(), card, s.edit); err != nil {
			t.Fatal(err)
		}
		if kinds := b.kinds(t, card)[had:]; !slices.Equal(kinds, s.events) {
			t.Errorf("step %d: events %v", i, kinds)
		}
		if s.fields != "" {
			if p := b.scalar(t, `SELECT payload FROM task_events WHERE kind = 'edited' ORDER BY id DESC LIMIT 1`); p != s.fields {
				t.Errorf("step %d: payload %s", i, p)
			}
		}
	}
	got := b.get(t, card)
	if got.Title != "b" || got.Body != "c" || got.Tenant != "" || got.Priority != 7 || got.MaxRetries != nil || got.MaxRuntimeSeconds != 0 || !slices.Equal(got.Skills, []string{"go"}) {
		t.Errorf("%+v", got)
	}
	if got.ConsecutiveFailures != 0 || got.LastFailureError != "" {
		t.Error("another task did not start afresh")
	}
	if p := b.lastPayload(t, card, "reprioritized"); p["priority"] != 7.0 {
		t.Errorf("payload: %v", p)
	}
}

func TestOnlyAFinishedCardHasAResultToEdit(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{}).ID
	if err := b.Edit(t.Context(), card, Edit{Result: new("r")}); !problem.Is(err, problem.Conflict) {
		t.Errorf("an open card: %v", err)
	}
	if err := b.Complete(t.Context(), card, Completion{Summary: "s"}); err != nil {
		t.Fatal(err)
	}
	if err := b.Edit(t.Context(), card, Edit{Result: new("r"), Summary: new("better"), Metadata: map[string]any{"a": 1}}); err != nil {
		t.Fatal(err)
	}
	if run := b.runs(t, card)[0]; run.Summary != "better" || string(run.Metadata) != `{"a": 1}` || b.get(t, card).Result != "r" {
		t.Errorf("run: %+v", run)
	}
	if p := b.lastPayload(t, card, "edited"); len(p["fields"].([]any)) != 3 {
		t.Errorf("payload: %v", p)
	}
	for name, e := range map[string]Edit{
		"no title": {Title: new("")}, "toolset": {Skills: &[]string{"terminal"}}, "negative": {MaxRetries: new(int64(-1))},
	} {
		if err := b.Edit(t.Context(), card, e); !problem.Is(err, problem.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAModelIsSetAndCleared(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{}).ID
	if err := b.SetModel(t.Context(), card, ModelChoice{Provider: new("p")}); !problem.Is(err, problem.Invalid) {
		t.Errorf("a provider alone: %v", err)
	}
	if err := b.SetModel(t.Context(), card, ModelChoice{Reasoning: new("a lot")}); !problem.Is(err, problem.Invalid) {
		t.Errorf("an effort that there is not: %v", err)
	}
	for _, m := range []ModelChoice{
		{Model: new("m"), Provider: new("p"), Reasoning: new("low")}, {Model: new("m")}, {Model: new("")}, {Reasoning: new("")},
	} {
		if err := b.SetModel(t.Context(), card, m); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.get(t, card); got.ModelOverride+got.ProviderOverride+got.ReasoningEffort != "" {
		t.Errorf("%+v", got)
	}
	want := []string{"created", "model_override_set", "reasoning_effort_set", "model_override_set", "reasoning_effort_set"}
	if kinds := b.kinds(t, card); !slices.Equal(kinds, want) {
		t.Errorf("events: %v", kinds)
	}
	if p := b.scalar(t, `SELECT group_concat(payload, ' ') FROM task_events WHERE kind LIKE '%_set'`); !strings.Contains(p, `{"model": "m", "provider": "p"}`) || !strings.Contains(p, `{"reasoning_effort": null}`) {
		t.Errorf("payloads: %s", p)
	}
}
