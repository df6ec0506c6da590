package tools

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gatewayd/kanban"
)

func TestTheToolsAreTheseAndTakeThis(t *testing.T) {
	want := map[string]string{
		"kanban_show":     "task_id",
		"kanban_list":     "assignee, status, tenant, include_archived, limit",
		"kanban_complete": "task_id, summary, metadata, result, created_cards, artifacts",
		"kanban_block":    "task_id, reason, kind", "kanban_schedule": "task_id, reason, due_at, rule, zone",
		"kanban_request_review": "task_id, summary, reviewer, metadata, artifacts", "kanban_request_changes": "task_id, reason",
		"kanban_heartbeat": "task_id, note", "kanban_comment": "task_id, body",
		"kanban_attach": "task_id, filename, content_base64, content_type", "kanban_attach_url": "task_id, url", "kanban_attachments": "task_id",
		"kanban_create": "title, assignee, body, parents, tenant, priority, workspace_kind, workspace_path, project, triage, idempotency_key, " +
			"max_runtime_seconds, initial_status, skills, goal_mode, goal_max_turns, completion_contract, model, provider",
		"kanban_unblock": "task_id", "kanban_link": "parent_id, child_id",
	}
	for _, tool := range All() {
		names := tool.names()
		if names != want[tool.Name]+", board" {
			t.Errorf("%s takes %s", tool.Name, names)
		}
		delete(want, tool.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	for _, tool := range (&Desk{Worker: &kanban.Fence{}}).Tools() {
		if tool.Name == "kanban_list" || tool.Name == "kanban_unblock" {
			t.Errorf("a worker is offered %s", tool.Name)
		}
	}
}

func TestArgumentsAreReadLenientlyWhereModelsDifferAndRefusedElsewhere(t *testing.T) {
	h := newHouse(t)
	d := &Desk{Boards: h, Name: "ann"}
	parent := h.make(t, kanban.NewTask{})
	for i, word := range []string{"true", `"true"`, `"1"`, "1", `"Yes"`, `"on"`} {
		body := did(t, d, "kanban_create", fmt.Sprintf(`{"title":" t%d ","assignee":"coder","triage":%s,"parents":%q,"priority":"7","skills":null}`, i, word, parent))
		card := h.show(t, body["task_id"].(string))
		if card.Task.Status != kanban.StatusTriage || !slices.Equal(card.Parents, []string{parent}) || card.Task.Priority != 7 || card.Task.Title != fmt.Sprintf("t%d", i) {
			t.Errorf("%s: %+v", word, card.Task)
		}
	}
	before := len(mustList(t, h))
	for args, why := range map[string]string{
		`{"title":"x","assignee":"coder","triage":"maybe"}`:       "true or false",
		`{"title":"x","assignee":"coder","parents":7}`:            "list of strings",
		`{"title":"x","assignee":"coder","parents":[7]}`:          "list of strings",
		`{"title":"x","assignee":"coder","priority":"high"}`:      "whole number",
		`{"title":["x"],"assignee":"coder"}`:                      "must be a string",
		`{"title":"x","assignee":"coder","workspace_kind":"tmp"}`: "scratch, dir, worktree",
		`{"title":"  ","assignee":"coder"}`:                       "title of kanban_create is missing",
		`{"title":"x"}`:                                           "assignee of kanban_create is missing",
		`{"title":"x","assignee":"coder","labels":[]}`:            "is not one of kanban_create",
		`["title"]`: "not a JSON object",
		`"title"`:   "not a JSON object",
	} {
		refused(t, d, "kanban_create", args, why)
	}
	if after := len(mustList(t, h)); after != before {
		t.Errorf("%d cards were made by refused calls", after-before)
	}
	refused(t, d, "kanban_frobnicate", `{}`, "use one of kanban_")
}

func mustList(t *testing.T, h *house) []kanban.Task {
	t.Helper()
	cards, err := h.board().List(t.Context(), kanban.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return cards
}

func TestAWorkerEndsItsOwnCardAndNoOther(t *testing.T) {
	h := newHouse(t)
	card, d := h.worker(t)
	other := h.make(t, kanban.NewTask{Assignee: "coder"})
	for tool, rest := range map[string]string{
		"kanban_complete": `"summary":"s"`, "kanban_block": `"reason":"r"`, "kanban_heartbeat": `"note":"n"`, "kanban_schedule": `"reason":"r"`,
		"kanban_request_review": `"summary":"s"`, "kanban_request_changes": `"reason":"r"`,
	} {
		refused(t, d, tool, fmt.Sprintf(`{"task_id":%q,%s}`, other, rest), "is not this worker's")
	}
	refused(t, d, "kanban_unblock", fmt.Sprintf(`{"task_id":%q}`, other), "for orchestrators")
	refused(t, d, "kanban_list", `{}`, "for orchestrators")
	if got := h.show(t, other); got.Task.Status != kanban.StatusReady || len(got.Events) != 1 {
		t.Errorf("the other card was touched: %+v", got)
	}
	did(t, d, "kanban_comment", fmt.Sprintf(`{"task_id":%q,"body":"look here"}`, other))
	child := did(t, d, "kanban_create", `{"title":"follow up","assignee":"coder"}`)["task_id"].(string)
	did(t, d, "kanban_link", fmt.Sprintf(`{"parent_id":%q,"child_id":%q}`, other, child))
	a := ask(t, d, "kanban_complete", fmt.Sprintf(`{"summary":"done","metadata":{"files":2},"created_cards":%q}`, child))
	if a.Err != nil || !a.Ended || h.show(t, card).Task.Status != kanban.StatusDone {
		t.Errorf("%s, ended %v", a.Text(), a.Ended)
	}
	stale(t, refused(t, d, "kanban_comment", `{"body":"one more thing"}`, "no longer run"))
}

func TestTheAuthorIsTheRunsLaneAndNeverAnArgument(t *testing.T) {
	h := newHouse(t)
	card, d := h.worker(t)
	did(t, d, "kanban_comment", `{"body":"mine"}`)
	for _, name := range []string{"author", "created_by", "from"} {
		ask(t, d, "kanban_comment", fmt.Sprintf(`{"body":"theirs","%s":"system"}`, name))
		ask(t, d, "kanban_create", fmt.Sprintf(`{"title":"theirs","assignee":"coder","%s":"system"}`, name))
	}
	made := did(t, d, "kanban_create", `{"title":"mine","assignee":"coder"}`)["task_id"].(string)
	for _, c := range h.show(t, card).Comments {
		if c.Author != "coder" {
			t.Errorf("comment %q is by %q", c.Body, c.Author)
		}
	}
	for _, c := range mustList(t, h) {
		if c.CreatedBy != "coder" && c.ID != card {
			t.Errorf("card %q was created by %q", c.Title, c.CreatedBy)
		}
	}
	if created := h.show(t, made).Events[0]; !strings.Contains(string(created.Payload), card) {
		t.Errorf("the creating card is not in %s", created.Payload)
	}
}

func TestASupersededWorkersEveryCallIsRefused(t *testing.T) {
	h := newHouse(t)
	card, d := h.worker(t)
	if _, err := h.board().EndRun(t.Context(), kanban.End{Task: card, Run: d.Worker.Run, Outcome: kanban.OutcomeReclaimed}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.board().Claim(t.Context(), card, kanban.Claimer{Lock: kanban.ClaimLock(), TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	events := len(h.show(t, card).Events)
	for tool, args := range calls(card) {
		stale(t, refused(t, d, tool, args, "no longer run"))
	}
	if got := h.show(t, card); len(got.Events) != events || len(got.Comments) > 0 || len(mustList(t, h)) != 1 {
		t.Errorf("something was changed: %+v", got)
	}
}

// calls are right arguments for each tool of a worker.
func calls(card string) map[string]string {
	return map[string]string{
		"kanban_show": `{}`, "kanban_complete": `{"summary":"s"}`, "kanban_block": `{"reason":"r"}`, "kanban_schedule": `{"reason":"r"}`,
		"kanban_request_review": `{"summary":"s"}`, "kanban_request_changes": `{"reason":"r"}`, "kanban_heartbeat": `{"note":"n"}`,
		"kanban_attach": `{"filename":"f","content_base64":"aGk="}`, "kanban_attach_url": `{"url":"https://example.com/f"}`,
		"kanban_attachments": `{}`, "kanban_comment": `{"body":"b"}`, "kanban_create": `{"title":"t","assignee":"coder"}`, "kanban_link": fmt.Sprintf(`{"parent_id":%q,"child_id":"t_x"}`, card),
	}
}

func TestACardOfAnotherBoardIsNamedWithItsBoard(t *testing.T) {
	h := newHouse(t, "web")
	_, worker := h.worker(t)
	person := &Desk{Boards: h, Name: "ann"}
	far, err := h.held["web"].Create(t.Context(), kanban.NewTask{Title: "far", Assignee: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	here := h.make(t, kanban.NewTask{})
	refused(t, person, "kanban_show", fmt.Sprintf(`{"task_id":%q}`, far.ID), `call again with board \"web\"`)
	refused(t, person, "kanban_link", fmt.Sprintf(`{"parent_id":%q,"child_id":%q}`, here, far.ID), "is on board web")
	refused(t, worker, "kanban_comment", fmt.Sprintf(`{"task_id":%q,"body":"b"}`, far.ID), "is on board web, not on this worker's board default")
	refused(t, worker, "kanban_show", `{"board":"web"}`, "is not this worker's")
	refused(t, person, "kanban_show", `{"task_id":"t_nowhere"}`, "is on no board")
	if a := ask(t, person, "kanban_show", `{"task_id":"t_1","board":"gone"}`); !strings.Contains(a.Text(), "board gone") {
		t.Errorf("a board that is not there: %s", a.Text())
	}
	if got := did(t, person, "kanban_show", fmt.Sprintf(`{"task_id":%q,"board":"WEB"}`, far.ID)); got["board"] != kanban.Slug("web") {
		t.Errorf("board %v", got["board"])
	}
}

func TestCardsThatWereNotCreatedRefuseTheCompletion(t *testing.T) {
	h := newHouse(t)
	card, d := h.worker(t)
	real := did(t, d, "kanban_create", `{"title":"real","assignee":"coder"}`)["task_id"].(string)
	refused(t, d, "kanban_complete", fmt.Sprintf(`{"summary":"s","created_cards":[%q,"t_0000000a"]}`, real), "t_0000000a")
	if got := h.show(t, card); got.Task.Status != kanban.StatusRunning || got.Events[len(got.Events)-1].Kind != "completion_blocked_hallucination" {
		t.Errorf("%+v", got)
	}
	did(t, d, "kanban_complete", fmt.Sprintf(`{"summary":"s","created_cards":[%q]}`, real))
}

func TestAListIsBoundedAndSaysSo(t *testing.T) {
	h := newHouse(t)
	d := &Desk{Boards: h}
	for range 3 {
		h.make(t, kanban.NewTask{Assignee: "coder"})
	}
	got := did(t, d, "kanban_list", `{"limit":2}`)
	if got["count"] != 2 || got["truncated"] != true || got["next_limit"] != int64(4) || got["promoted"] != 0 {
		t.Errorf("%v", got)
	}
	if got = did(t, d, "kanban_list", `{"status":"ready"}`); got["count"] != 3 || got["truncated"] != false || got["limit"] != int64(50) {
		t.Errorf("%v", got)
	}
	refused(t, d, "kanban_list", `{"limit":201}`, "1 to 200")
	refused(t, d, "kanban_list", `{"status":"fine"}`, "one of triage")
}

// overtaken loses the run to another between the look at the run and the write.
type overtaken struct {
	*house
	t    *testing.T
	card string
	run  kanban.RunID
}

// Lookup is asked when the call was let in and before it writes.
func (o overtaken) Lookup(slug kanban.Slug) (kanban.Info, error) {
	if _, err := o.board().EndRun(o.t.Context(), kanban.End{Task: o.card, Run: o.run, Outcome: kanban.OutcomeReclaimed}); err != nil {
		o.t.Error(err)
	}
	return o.house.Lookup(slug)
}

// The look at the start of a call only finds out who speaks: what keeps a superseded worker from writing is in the write.
func TestACallThatWasOvertakenWritesNothing(t *testing.T) {
	h := newHouse(t)
	card, d := h.worker(t)
	d.Boards = overtaken{h, t, card, d.Worker.Run}
	stale(t, refused(t, d, "kanban_create", `{"title":"late","assignee":"coder"}`, "no longer run"))
	if cards := mustList(t, h); len(cards) != 1 {
		t.Errorf("%d cards", len(cards))
	}
}
