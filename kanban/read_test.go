package kanban

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gatewayd/internal/problem"
)

func keysOf(t *testing.T, v any) []string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(string(text)))
	var keys []string
	depth, isKey := 0, false
	for {
		tok, err := dec.Token()
		if err != nil {
			return keys
		}
		switch d := tok.(type) {
		case json.Delim:
			if d == '{' || d == '[' {
				depth++
			} else {
				depth--
			}
			isKey = depth == 1
		default:
			if depth == 1 {
				if isKey {
					keys = append(keys, fmt.Sprint(tok))
				}
				isKey = !isKey
			}
		}
	}
}

func TestJSONShapes(t *testing.T) {
	b := newBoard(t)
	parent := b.make(t, NewTask{Title: "p"})
	card := b.make(t, NewTask{Title: "c", Assignee: "dev", Parents: []string{parent.ID}})
	for name, c := range map[string]struct {
		v    any
		want string
	}{
		"task": {card, `id title body assignee status priority tenant workspace_kind workspace_path branch_name project_id created_by created_at started_at
			completed_at result skills max_runtime_seconds max_retries model_override provider_override session_id workflow_template_id current_step_key
			completion_contract last_failure_error`},
		"detail": {Detail{Task: card}, `task latest_summary parents children comments events runs attachments`},
		"run":    {Run{}, `id profile step_key status outcome summary error metadata worker_pid started_at ended_at`},
		"event":  {Event{}, `id task_id run_id kind payload created_at`},
		"stats":  {Stats{}, `by_status by_assignee oldest_ready_age_seconds now`},
	} {
		if got := keysOf(t, c.v); !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s has keys %v", name, got)
		}
	}
	text, _ := json.Marshal(parent)
	if !strings.Contains(string(text), `"body":null`) || !strings.Contains(string(text), `"skills":[]`) || !strings.Contains(string(text), `"started_at":null`) {
		t.Errorf("task: %s", text)
	}
	d, err := b.Show(t.Context(), card.ID)
	if err != nil || !slices.Equal(d.Parents, []string{parent.ID}) || len(d.Events) != 2 {
		t.Errorf("detail: %+v, %v", d, err)
	}
	text, err = json.Marshal(d)
	if err != nil || !strings.Contains(string(text), `"children":[]`) || !strings.Contains(string(text), `"runs":[]`) {
		t.Errorf("detail: %s, %v", text, err)
	}
}

func TestDamagedJSONColumnsAreShown(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	b.sql(t, `INSERT INTO task_events (task_id, kind, payload, created_at) VALUES (?, 'claimed', '{"x": NaN}', 1), (?, 'y', x'fffe', 'yesterday')`, card.ID, card.ID)
	b.sql(t, `INSERT INTO task_runs (task_id, status, started_at, ended_at, metadata, outcome) VALUES (?, 'done', '1795953314', 2, '{''k'': 1}', 'completed')`, card.ID)
	b.sql(t, `UPDATE tasks SET skills = 'nonsense', title = CAST(x'61ff' AS TEXT), worker_started_at = 5 WHERE id = ?`, card.ID)
	d, err := b.Show(t.Context(), card.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d.Task.Title != "a\ufffd" || d.Task.WorkerStarted != "5" || d.Runs[0].StartedAt != 1795953314 {
		t.Errorf("task %+v, run %+v", d.Task, d.Runs[0])
	}
	text, err := json.Marshal(d)
	if err != nil || !strings.Contains(string(text), `"{\"x\": NaN}"`) || !strings.Contains(string(text), `"{'k': 1}"`) {
		t.Errorf("detail: %s, %v", text, err)
	}
	if err := b.Unblock(t.Context(), card.ID, ""); !problem.Is(err, problem.Conflict) {
		t.Error(err)
	}
	if err := b.Complete(t.Context(), card.ID, Completion{Summary: "s"}); err != nil {
		t.Errorf("a damaged history stands in the way: %v", err)
	}
}

func TestListFiltersAndOrders(t *testing.T) {
	b := newBoard(t)
	low := b.make(t, NewTask{Title: "b low", Assignee: "dev", Priority: 1, Tenant: "t", SessionID: "s"})
	high := b.make(t, NewTask{Title: "A high", Assignee: "ops", Priority: 9})
	mid := b.make(t, NewTask{Title: "c mid", Priority: 5})
	gone := b.make(t, NewTask{Title: "gone"})
	for i, id := range []string{low.ID, high.ID, mid.ID, gone.ID} {
		b.sql(t, `UPDATE tasks SET created_at = ? WHERE id = ?`, 100000+i, id)
	}
	if err := b.Archive(t.Context(), gone.ID); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		f    Filter
		want []string
	}{
		"default":  {Filter{}, []string{high.ID, mid.ID, low.ID}},
		"archived": {Filter{Archived: true}, []string{high.ID, mid.ID, low.ID, gone.ID}},
		"status":   {Filter{Status: StatusArchived}, []string{gone.ID}},
		"assignee": {Filter{Assignee: "DEV"}, []string{low.ID}},
		"tenant":   {Filter{Tenant: "t", Session: "s"}, []string{low.ID}},
		"nothing":  {Filter{Tenant: "t", Assignee: "ops"}, nil},
		"created":  {Filter{Sort: "created"}, []string{low.ID, high.ID, mid.ID}},
		"newest":   {Filter{Sort: "created-desc", Limit: 1}, []string{mid.ID}},
		"title":    {Filter{Sort: "title"}, []string{high.ID, low.ID, mid.ID}},
		"by lane":  {Filter{Sort: "assignee"}, []string{low.ID, high.ID, mid.ID}},
	} {
		tasks, err := b.List(t.Context(), c.f)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, task := range tasks {
			ids = append(ids, task.ID)
		}
		if !slices.Equal(ids, c.want) {
			t.Errorf("%s: %v, want %v", name, ids, c.want)
		}
	}
	for order := range sorts() {
		if _, err := b.List(t.Context(), Filter{Sort: order}); err != nil {
			t.Errorf("order %q: %v", order, err)
		}
	}
	if _, err := b.List(t.Context(), Filter{Sort: "id; DROP TABLE tasks"}); !problem.Is(err, problem.Invalid) {
		t.Errorf("unknown order: %v", err)
	}
	ready, err := b.Ready(t.Context())
	if err != nil || len(ready) != 3 || ready[0].Task.ID != high.ID || ready[2].Task.ID != low.ID {
		t.Errorf("ready: %+v, %v", ready, err)
	}
}

func TestStatsCount(t *testing.T) {
	b := newBoard(t)
	one := b.make(t, NewTask{Assignee: "dev"})
	b.make(t, NewTask{Assignee: "dev", InitialStatus: StatusBlocked})
	b.make(t, NewTask{})
	b.sql(t, `UPDATE tasks SET created_at = created_at - 60 WHERE id = ?`, one.ID)
	got, err := b.Stats(t.Context())
	if err != nil || got.OldestReadyAgeSeconds == nil || *got.OldestReadyAgeSeconds < 60 || got.Now == 0 {
		t.Fatalf("stats: %+v, %v", got, err)
	}
	if diff := cmp.Diff(map[string]int{"ready": 2, "blocked": 1}, got.ByStatus); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]map[string]int{"dev": {"ready": 1, "blocked": 1}}, got.ByAssignee); diff != "" {
		t.Error(diff)
	}
}

func TestEventsAreACursor(t *testing.T) {
	b := newBoard(t)
	for range 5 {
		b.make(t, NewTask{})
	}
	first, err := b.Events(t.Context(), 0, 3)
	if err != nil || len(first) != 3 {
		t.Fatalf("events: %v, %v", first, err)
	}
	rest, err := b.Events(t.Context(), first[2].ID, 0)
	if err != nil || len(rest) != 2 || rest[0].ID != first[2].ID+1 {
		t.Errorf("rest: %v, %v", rest, err)
	}
	if last, err := b.LatestEvent(t.Context()); err != nil || last != rest[1].ID {
		t.Errorf("latest: %d, %v", last, err)
	}
}

func TestAssign(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Assignee: "dev"})
	b.sql(t, `UPDATE tasks SET consecutive_failures = 1, last_failure_error = 'x' WHERE id = ?`, card.ID)
	if err := b.Assign(t.Context(), card.ID, " @Dev "); err != nil {
		t.Fatal(err)
	}
	if got := b.get(t, card.ID); got.ConsecutiveFailures != 1 || slices.Contains(b.kinds(t, card.ID), "assigned") {
		t.Error("the same assignee is no change")
	}
	if err := b.AssignFrom(t.Context(), card.ID, "Ops", "kanban.default_assignee"); err != nil {
		t.Fatal(err)
	}
	if got := b.get(t, card.ID); got.Assignee != "ops" || got.ConsecutiveFailures != 0 || got.LastFailureError != "" {
		t.Errorf("card: %+v", got)
	}
	if p := b.scalar(t, `SELECT payload FROM task_events WHERE kind = 'assigned'`); p != `{"assignee": "ops", "from": "dev", "source": "kanban.default_assignee"}` {
		t.Errorf("payload: %s", p)
	}
	for _, none := range []string{"none", "-", ""} {
		if err := b.Assign(t.Context(), card.ID, none); err != nil || b.get(t, card.ID).Assignee != "" {
			t.Errorf("assign %q: %v", none, err)
		}
	}
	if err := b.Assign(t.Context(), card.ID, "null"); !problem.Is(err, problem.Invalid) {
		t.Errorf("assign null: %v", err)
	}
	b.mustClaim(t, card.ID)
	wantErr(t, b.Assign(t.Context(), card.ID, "dev"), ErrLiveClaim)
}

func TestComment(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	made, err := b.Comment(t.Context(), card.ID, "me", "  ünïcode ✓ ")
	if err != nil || made.Body != "ünïcode ✓" {
		t.Fatalf("comment: %+v, %v", made, err)
	}
	if p := b.scalar(t, `SELECT payload FROM task_events WHERE kind = 'commented'`); p != `{"author": "me", "len": 9}` {
		t.Errorf("payload: %s", p)
	}
	if _, err := b.Comment(t.Context(), card.ID, "me", " "); !problem.Is(err, problem.Invalid) {
		t.Errorf("empty comment: %v", err)
	}
	_, err = b.Comment(t.Context(), "t_none", "me", "x")
	wantErr(t, err, ErrNotFound)
	if d, err := b.Show(t.Context(), card.ID); err != nil || len(d.Comments) != 1 || d.Comments[0] != made {
		t.Errorf("comments: %+v, %v", d.Comments, err)
	}
}

func TestGuardLinesAreNotRepeated(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	for i, c := range []struct {
		reason string
		want   bool
	}{{"active_pr", true}, {"active_pr", false}, {"blocker_auth", true}, {"active_pr", true}, {"active_pr", false}} {
		if wrote, err := b.Guarded(t.Context(), card.ID, "respawn_guarded", c.reason); err != nil || wrote != c.want {
			t.Errorf("line %d: %v, %v", i, wrote, err)
		}
	}
}

func TestSetWorkspace(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	run := b.mustClaim(t, card.ID)
	if err := b.SetWorkspace(t.Context(), card.ID, run, "/w/x", "wt/x"); err != nil {
		t.Fatal(err)
	}
	if got := b.get(t, card.ID); got.WorkspacePath != "/w/x" || got.BranchName != "wt/x" {
		t.Errorf("card: %+v", got)
	}
}

func TestContextTellsAWorkerWhatItNeeds(t *testing.T) {
	b := newBoard(t)
	parent := b.make(t, NewTask{Title: "Parent", Assignee: "dev"})
	open := b.make(t, NewTask{Title: "Open parent"})
	if err := b.Complete(t.Context(), parent.ID, Completion{Summary: "parent did it", Metadata: map[string]any{"z": 1, "a": 2}}); err != nil {
		t.Fatal(err)
	}
	card := b.make(t, NewTask{
		Title: "Build", Body: strings.Repeat("é", maxContextBody), Assignee: "dev", Tenant: "acme", MaxRuntimeSeconds: 90, Parents: []string{parent.ID},
	})
	b.fail(t, card.ID, End{Outcome: OutcomeCrashed, Error: "boom"})
	if err := b.Link(t.Context(), open.ID, card.ID); err != nil {
		t.Fatal(err)
	}
	for i := range maxContextComments + 2 {
		if _, err := b.Comment(t.Context(), card.ID, "sys`tem", fmt.Sprintf("comment %d.", i)); err != nil {
			t.Fatal(err)
		}
	}
	b.sql(t, `INSERT INTO task_attachments (task_id, filename, stored_path, size, created_at) VALUES (?, 'a.txt', '/att/a.txt', 2000, 1)`, card.ID)
	b.sql(t, `UPDATE task_runs SET ended_at = ended_at - 7200 WHERE task_id = ?`, card.ID)
	text, err := b.Context(t.Context(), card.ID)
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, want := range []string{
		"# Card " + card.ID + ": Build", "Assignee: dev", "Status: todo", "Tenant: acme", "Workspace: scratch", "Max runtime: 90 s", "## Body", "bytes left out",
		"## Attachments", "a.txt (unknown type, 2 KB): /att/a.txt", "## Prior attempts", "crashed by @dev", "2 h ago", "Error: boom",
		"## Parent task results", "snapshots", "parent did it", `Metadata: {"a": 2, "z": 1}`, "## Recent work by @dev", parent.ID,
		"## Comment thread", "(2 older comments left out)", "comment from worker `system`", "comment 31.",
	} {
		at := strings.Index(text[last:], want)
		if at < 0 {
			t.Fatalf("%q is missing, or not in its place, in:\n%s", want, text)
		}
		last += at
	}
	for _, not := range []string{"Open parent", "comment 1.", "sys`tem"} {
		if strings.Contains(text, not) {
			t.Errorf("%q is in the text", not)
		}
	}
	if _, err := b.Context(t.Context(), "t_none"); !problem.Is(err, problem.NotFound) {
		t.Errorf("context of nothing: %v", err)
	}
}

func TestAges(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "just now", 59 * time.Second: "just now", time.Minute: "1 min ago", 3 * time.Hour: "3 h ago", 50 * time.Hour: "2 days ago",
	} {
		if got := age(d); got != want {
			t.Errorf("age(%v) = %q, want %q", d, got, want)
		}
	}
}
