package e2e

import (
	"net/http"
	"strconv"
	"testing"

	"gatewayd/kanban"
)

// made gives cards by name, each after the one before it.
func made(t *testing.T, b *kanban.Board, n names, name string, card kanban.NewTask) {
	t.Helper()
	card.Title = name
	task, err := b.Create(t.Context(), card)
	if err != nil {
		t.Fatal(err)
	}
	n[name] = task.ID
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// state makes a card and brings it where a verb wants it.
func state(steps ...func(*testing.T, *kanban.Board, names)) func(*testing.T, *kanban.Board) names {
	return func(t *testing.T, b *kanban.Board) names {
		t.Helper()
		n := names{}
		made(t, b, n, "card", kanban.NewTask{Assignee: "dev"})
		for _, step := range steps {
			step(t, b, n)
		}
		return n
	}
}

func claimed(t *testing.T, b *kanban.Board, n names) {
	t.Helper()
	claim, err := b.Claim(t.Context(), n["card"], kanban.Claimer{})
	must(t, err)
	n["run"] = strconv.FormatInt(int64(claim.Run.ID), 10)
}

func reviewClaimed(t *testing.T, b *kanban.Board, n names) {
	t.Helper()
	claim, err := b.Claim(t.Context(), n["card"], kanban.Claimer{Review: true})
	must(t, err)
	n["run"] = strconv.FormatInt(int64(claim.Run.ID), 10)
}

func done(t *testing.T, b *kanban.Board, n names) {
	t.Helper()
	must(t, b.Complete(t.Context(), n["card"], kanban.Completion{Summary: "did it", Force: true}))
}

func blocked(t *testing.T, b *kanban.Board, n names) {
	t.Helper()
	must(t, b.Block(t.Context(), n["card"], kanban.Block{Reason: "waits", Kind: kanban.BlockNeedsInput}))
}

func putAway(t *testing.T, b *kanban.Board, n names) {
	t.Helper()
	must(t, b.Archive(t.Context(), n["card"]))
}

func inReview(t *testing.T, b *kanban.Board, n names) {
	t.Helper()
	must(t, b.RequestReview(t.Context(), n["card"], kanban.Review{Summary: "look", Reviewer: "critic"}))
}

func withParent(t *testing.T, b *kanban.Board, n names) {
	t.Helper()
	made(t, b, n, "parent", kanban.NewTask{})
}

func linked(t *testing.T, b *kanban.Board, n names) {
	t.Helper()
	withParent(t, b, n)
	must(t, b.Link(t.Context(), n["parent"], n["card"]))
}

func rough(t *testing.T, b *kanban.Board) names {
	t.Helper()
	n := names{}
	made(t, b, n, "card", kanban.NewTask{Triage: true})
	return n
}

// task is the path of a verb of the card.
func task(verb string) string { return "/tasks/{card}/" + verb }

// parities is the table: a verb may have several rows.
func parities() []parity {
	post := http.MethodPost
	return []parity{
		{
			verb: "Create", given: state(), events: []string{"created", "dependency_wait"},
			cli: []string{"create", "A title", "--body", "words", "--assignee", "Dev", "--priority", "3", "--tenant", "acme", "--skill", "go", "--max-runtime", "2h",
				"--max-retries", "4", "--workspace", "dir:/tmp", "--model", "m", "--provider", "p", "--reasoning", "high", "--goal", "--goal-max-turns", "5",
				"--completion-contract", "local-only", "--session", "s", "--project", "p1", "--idempotency-key", "k", "--parent", "{card}"},
			method: post, path: "/tasks", body: `{"title":"A title","body":"words","assignee":"Dev","priority":3,"tenant":"acme","skills":["go"],"max_runtime_seconds":7200,
				"max_retries":4,"workspace_kind":"dir","workspace_path":"/tmp","model_override":"m","provider_override":"p","reasoning_effort":"high","goal_mode":true,
				"goal_max_turns":5,"completion_contract":"local-only","session_id":"s","project_id":"p1","idempotency_key":"k","parents":["{card}"]}`,
		},
		{
			verb: "Create", given: state(), events: []string{"created", "blocked"}, cli: []string{"create", "later", "--blocked"},
			method: post, path: "/tasks", body: `{"title":"later","initial_status":"blocked"}`,
		},
		{
			verb: "Comment", given: state(), events: []string{"commented"}, cli: []string{"comment", "{card}", "well", "done"},
			method: post, path: task("comments"), body: `{"body":"well done"}`,
		},
		{
			verb: "LinkAs", given: state(withParent), events: []string{"linked", "dependency_wait"}, cli: []string{"link", "{parent}", "{card}"},
			method: post, path: "/links", body: `{"parent_id":"{parent}","child_id":"{card}"}`,
		},
		{
			verb: "LinkAs", given: state(withParent, claimed), events: []string{"linked"}, cli: []string{"link", "{parent}", "{card}", "--run", "{run}"},
			method: post, path: "/links", body: `{"parent_id":"{parent}","child_id":"{card}","run_id":{run}}`,
		},
		{
			verb: "Unlink", given: state(linked), events: []string{"unlinked", "promoted"}, cli: []string{"unlink", "{parent}", "{card}"},
			method: http.MethodDelete, path: "/links?parent_id={parent}&child_id={card}",
		},
		{
			verb: "Assign", given: state(), events: []string{"assigned"}, cli: []string{"assign", "{card}", "@Critic"},
			method: post, path: task("assign"), body: `{"assignee":"@Critic"}`,
		},
		{
			verb: "Assign", given: state(), events: []string{"assigned"}, cli: []string{"assign", "{card}", "none"},
			method: http.MethodPatch, path: "/tasks/{card}", body: `{"assignee":""}`,
		},
		{
			verb: "Claim", given: state(), events: []string{"claimed"}, cli: []string{"claim", "{card}", "--ttl", "60"},
			method: post, path: task("claim"), body: `{"ttl_seconds":60}`,
		},
		{
			verb: "Heartbeat", given: state(claimed), events: []string{"heartbeat"}, cli: []string{"heartbeat", "{card}", "--run", "{run}", "--note", "half way"},
			method: post, path: task("heartbeat"), body: `{"run_id":{run},"note":"half way"}`,
		},
		{
			verb: "Complete", given: state(claimed), events: []string{"completed"},
			cli:    []string{"complete", "{card}", "--run", "{run}", "--summary", "s", "--result", "r", "--metadata", `{"files":3}`},
			method: post, path: task("complete"), body: `{"run_id":{run},"summary":"s","result":"r","metadata":{"files":3}}`,
		},
		{
			verb: "Complete", given: state(blocked), events: []string{"completed"}, cli: []string{"complete", "{card}", "--result", "r"},
			method: post, path: task("complete"), body: `{"result":"r"}`,
		},
		{
			verb: "Block", given: state(claimed), events: []string{"blocked"},
			cli:    []string{"block", "{card}", "which", "colour?", "--kind", "needs_input", "--run", "{run}"},
			method: post, path: task("block"), body: `{"run_id":{run},"reason":"which colour?","kind":"needs_input"}`,
		},
		{
			verb: "Unblock", given: state(blocked), events: []string{"unblocked"}, cli: []string{"unblock", "{card}", "--reason", "red"},
			method: post, path: task("unblock"), body: `{"reason":"red"}`,
		},
		{
			verb: "Schedule", given: state(), events: []string{"scheduled"},
			cli:    []string{"schedule", "{card}", "for", "later", "--at", "2035-01-01T09:00:00Z"},
			method: post, path: task("schedule"), body: `{"reason":"for later","due_at":2051254800}`,
		},
		{
			verb: "Schedule", given: state(), events: []string{"scheduled"},
			cli:    []string{"schedule", "{card}", "--rule", "0 9 * * 1", "--zone", "Europe/Berlin", "--at", "2035-01-01 09:00"},
			method: post, path: task("schedule"), body: `{"rule":"0 9 * * 1","zone":"Europe/Berlin","due_at":"2035-01-01 09:00"}`,
		},
		{
			verb: "PromoteByHand", given: state(linked), events: []string{"unlinked", "promoted_manual"}, cli: []string{"promote", "{card}", "hurry", "--force"},
			method: post, path: task("promote"), body: `{"reason":"hurry","force":true}`,
		},
		{
			verb: "RequestReview", given: state(claimed), events: []string{"review_requested"},
			cli:    []string{"request-review", "{card}", "--summary", "s", "--reviewer", "critic", "--run", "{run}", "--metadata", `{"files":3}`},
			method: post, path: task("request-review"), body: `{"run_id":{run},"summary":"s","reviewer":"critic","metadata":{"files":3}}`,
		},
		{
			verb: "RequestChanges", given: state(inReview, reviewClaimed), events: []string{"changes_requested"},
			cli:    []string{"request-changes", "{card}", "tests", "fail", "--run", "{run}"},
			method: post, path: task("request-changes"), body: `{"run_id":{run},"reason":"tests fail"}`,
		},
		{
			verb: "ReopenReview", given: state(done), events: []string{"review_reopened"}, cli: []string{"reopen-review", "{card}", "look", "again"},
			method: post, path: task("reopen-review"), body: `{"reason":"look again"}`,
		},
		{
			verb: "Specify", given: rough, events: []string{"specified", "promoted"},
			cli:    []string{"specify", "{card}", "--title", "clear", "--body", "words", "--assignee", "dev"},
			method: post, path: task("specify"), body: `{"title":"clear","body":"words","assignee":"dev"}`,
		},
		{
			verb: "Decompose", given: rough, events: []string{"decomposed"}, cli: []string{"decompose", "{card}", "--child", "one", "--child", "two", "--child-assignee", "dev"},
			method: post, path: task("decompose"), body: `{"children":[{"title":"one","assignee":"dev"},{"title":"two","assignee":"dev"}]}`,
		},
		{
			verb: "Edit", given: state(), events: []string{"edited", "reprioritized"},
			cli:    []string{"edit", "{card}", "--title", "other", "--priority", "7", "--max-runtime", "1h", "--skill", "go"},
			method: http.MethodPatch, path: "/tasks/{card}", body: `{"title":"other","priority":7,"max_runtime_seconds":3600,"skills":["go"]}`,
		},
		{
			verb: "Edit", given: state(done), events: []string{"edited"}, cli: []string{"edit", "{card}", "--result", "better", "--summary", "short", "--metadata", `{"n":1}`},
			method: http.MethodPatch, path: "/tasks/{card}", body: `{"result":"better","summary":"short","metadata":{"n":1}}`,
		},
		{
			verb: "SetModel", given: state(), events: []string{"model_override_set", "reasoning_effort_set"},
			cli:    []string{"set-model", "{card}", "m", "--provider", "p", "--reasoning", "low"},
			method: post, path: task("set-model"), body: `{"model_override":"m","provider_override":"p","reasoning_effort":"low"}`,
		},
		{
			verb: "Reclaim", given: state(claimed), events: []string{"reclaimed"}, cli: []string{"reclaim", "{card}", "--reason", "stuck"},
			method: post, path: task("reclaim"), body: `{"reason":"stuck"}`,
		},
		{
			verb: "Reassign", given: state(claimed), events: []string{"reclaimed", "assigned"},
			cli:    []string{"reassign", "{card}", "critic", "--reclaim", "--reason", "stuck"},
			method: post, path: task("reassign"), body: `{"assignee":"critic","reclaim_first":true,"reason":"stuck"}`,
		},
		{
			verb: "Move", given: state(), events: []string{"status"}, cli: []string{"move", "{card}", "triage", "--reason", "too early"},
			method: post, path: task("move"), body: `{"status":"triage","reason":"too early"}`,
		},
		{
			verb: "Move", given: state(claimed), events: []string{"completed"}, cli: []string{"move", "{card}", "done"},
			method: http.MethodPatch, path: "/tasks/{card}", body: `{"status":"done"}`,
		},
		{
			verb: "Terminate", given: state(claimed), events: []string{"reclaimed"}, cli: []string{"terminate", "{run}", "--reason", "stuck"},
			method: post, path: "/runs/{run}/terminate", body: `{"reason":"stuck"}`,
		},
		{
			verb: "Archive", given: state(claimed), events: []string{"archived"}, cli: []string{"archive", "{card}"},
			method: post, path: task("archive"),
		},
		{
			verb: "Purge", given: state(putAway), events: []string{"deleted"}, cli: []string{"archive", "--rm", "{card}"},
			method: post, path: task("purge"),
		},
		{
			verb: "Delete", given: state(linked), events: []string{"deleted"}, cli: []string{"delete", "{card}"},
			method: http.MethodDelete, path: "/tasks/{card}",
		},
	}
}
