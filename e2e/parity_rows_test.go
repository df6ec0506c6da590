package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gatewayd/kanban"
)

// makeCard gives cards by name, each after the one before it.
func makeCard(t *testing.T, b *kanban.Board, n names, name string, card kanban.NewTask) {
	t.Helper()
	card.Title = name
	task, err := b.Create(t.Context(), card)
	if err != nil {
		t.Fatal(err)
	}
	n[name] = task.ID
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cardAfter makes a card and brings it where a verb wants it.
func cardAfter(steps ...func(*testing.T, *kanban.Board, names)) func(*testing.T, *kanban.Board) names {
	return func(t *testing.T, b *kanban.Board) names {
		t.Helper()
		n := names{}
		makeCard(t, b, n, "card", kanban.NewTask{Assignee: "dev"})
		for _, step := range steps {
			step(t, b, n)
		}
		return n
	}
}

func cardClaimed(t *testing.T, b *kanban.Board, n names) {
	t.Helper()
	claim, err := b.Claim(t.Context(), n["card"], kanban.Claimer{})
	noError(t, err)
	n["run"] = strconv.FormatInt(int64(claim.Run.ID), 10)
}

func cardClaimedForReview(t *testing.T, b *kanban.Board, n names) {
	t.Helper()
	claim, err := b.Claim(t.Context(), n["card"], kanban.Claimer{Review: true})
	noError(t, err)
	n["run"] = strconv.FormatInt(int64(claim.Run.ID), 10)
}

func cardDone(t *testing.T, b *kanban.Board, n names) {
	t.Helper()
	noError(t, b.Complete(t.Context(), n["card"], kanban.Completion{Summary: "did it", Force: true}))
}

func cardBlocked(t *testing.T, b *kanban.Board, n names) {
	t.Helper()
	noError(t, b.Block(t.Context(), n["card"], kanban.Block{Reason: "waits", Kind: kanban.BlockNeedsInput}))
}

func cardArchived(t *testing.T, b *kanban.Board, n names) {
	t.Helper()
	noError(t, b.Archive(t.Context(), n["card"]))
}

func cardInReview(t *testing.T, b *kanban.Board, n names) {
	t.Helper()
	noError(t, b.RequestReview(t.Context(), n["card"], kanban.Review{Summary: "look", Reviewer: "critic"}))
}

func cardWithParent(t *testing.T, b *kanban.Board, n names) {
	t.Helper()
	makeCard(t, b, n, "parent", kanban.NewTask{})
}

func cardLinked(t *testing.T, b *kanban.Board, n names) {
	t.Helper()
	cardWithParent(t, b, n)
	noError(t, b.Link(t.Context(), n["parent"], n["card"]))
}

// fileAside is what the HTTP door is sent as a body.
func fileAside(t *testing.T, _ *kanban.Board, n names) {
	t.Helper()
	n["file"] = filepath.Join(t.TempDir(), "note.json")
	noError(t, os.WriteFile(n["file"], []byte(`{"a":1}`), 0o600))
}

func cardWithFile(t *testing.T, b *kanban.Board, n names) {
	t.Helper()
	made, err := b.Attach(t.Context(), n["card"], kanban.NewAttachment{Filename: "old.txt", By: speaker}, strings.NewReader("words"))
	noError(t, err)
	n["attachment"] = strconv.FormatInt(made.ID, 10)
}

func cardWatched(t *testing.T, b *kanban.Board, n names) {
	t.Helper()
	made, err := b.Subscribe(t.Context(), kanban.NewSubscription{Task: n["card"], Kinds: []string{"completed"}, Target: kanban.TargetCommand, Address: "bell"})
	noError(t, err)
	n["subscription"] = strconv.FormatInt(made.ID, 10)
}

func roughCard(t *testing.T, b *kanban.Board) names {
	t.Helper()
	n := names{}
	makeCard(t, b, n, "card", kanban.NewTask{Triage: true})
	return n
}

// verbPath is the path of a verb of the card.
func verbPath(verb string) string { return "/tasks/{card}/" + verb }

// parities is the table: a verb may have several rows.
func parities() []parity {
	post := http.MethodPost
	return []parity{
		{ // the first, while one card only is running
			verb: "StopAll", given: cardAfter(cardClaimed), events: []string{"reclaimed"}, cli: []string{"drain", "enough", "--kill"},
			method: post, path: "/drain", body: `{"reason":"enough","kill":true}`,
		},
		{
			verb: "Create", given: cardAfter(), events: []string{"created", "dependency_wait"},
			cli: []string{
				"create", "A title", "--body", "words", "--assignee", "Dev", "--priority", "3", "--tenant", "acme", "--skill", "go", "--max-runtime", "2h",
				"--max-retries", "4", "--workspace", "dir:/tmp", "--model", "m", "--provider", "p", "--reasoning", "high", "--goal", "--goal-max-turns", "5",
				"--completion-contract", "local-only", "--session", "s", "--project", "p1", "--idempotency-key", "k", "--parent", "{card}",
			},
			method: post, path: "/tasks", body: `{"title":"A title","body":"words","assignee":"Dev","priority":3,"tenant":"acme","skills":["go"],"max_runtime_seconds":7200,
				"max_retries":4,"workspace_kind":"dir","workspace_path":"/tmp","model_override":"m","provider_override":"p","reasoning_effort":"high","goal_mode":true,
				"goal_max_turns":5,"completion_contract":"local-only","session_id":"s","project_id":"p1","idempotency_key":"k","parents":["{card}"]}`,
		},
		{
			verb: "Create", given: cardAfter(), events: []string{"created", "blocked"}, cli: []string{"create", "later", "--blocked"},
			method: post, path: "/tasks", body: `{"title":"later","initial_status":"blocked"}`,
		},
		{
			verb: "Comment", given: cardAfter(), events: []string{"commented"}, cli: []string{"comment", "{card}", "well", "done"},
			method: post, path: verbPath("comments"), body: `{"body":"well done"}`,
		},
		{
			verb: "Link", given: cardAfter(cardWithParent), events: []string{"linked", "dependency_wait"}, cli: []string{"link", "{parent}", "{card}"},
			method: post, path: "/links", body: `{"parent_id":"{parent}","child_id":"{card}"}`,
		},
		{
			verb: "LinkAs", given: cardAfter(cardWithParent, cardClaimed), events: []string{"linked"}, cli: []string{"link", "{parent}", "{card}", "--run", "{run}"},
			method: post, path: "/links", body: `{"parent_id":"{parent}","child_id":"{card}","run_id":{run}}`,
		},
		{
			verb: "Unlink", given: cardAfter(cardLinked), events: []string{"unlinked", "promoted"}, cli: []string{"unlink", "{parent}", "{card}"},
			method: http.MethodDelete, path: "/links?parent_id={parent}&child_id={card}",
		},
		{
			verb: "Attach", given: cardAfter(fileAside), events: []string{"attached"}, cli: []string{"attach", "{card}", "{file}"},
			method: post, path: "/tasks/{card}/attachments?filename=note.json", body: `{"a":1}`,
		},
		{
			verb: "RemoveAttachment", given: cardAfter(cardWithFile), events: []string{"attachment_removed"}, cli: []string{"attach-rm", "{attachment}"},
			method: http.MethodDelete, path: "/attachments/{attachment}",
		},
		{
			verb: "Subscribe", given: cardAfter(), cli: []string{"notify", "subscribe", "{card}", "--command", "bell", "--kinds", "completed"},
			method: post, path: "/subscriptions", body: `{"task":"{card}","target":"command","address":"bell","kinds":["completed"]}`,
		},
		{
			verb: "Unsubscribe", given: cardAfter(cardWatched), cli: []string{"notify", "unsubscribe", "{subscription}"},
			method: http.MethodDelete, path: "/subscriptions/{subscription}",
		},
		{
			verb: "Assign", given: cardAfter(), events: []string{"assigned"}, cli: []string{"assign", "{card}", "@Critic"},
			method: post, path: verbPath("assign"), body: `{"assignee":"@Critic"}`,
		},
		{
			verb: "Assign", given: cardAfter(), events: []string{"assigned"}, cli: []string{"assign", "{card}", "none"},
			method: http.MethodPatch, path: "/tasks/{card}", body: `{"assignee":""}`,
		},
		{
			verb: "Claim", given: cardAfter(), events: []string{"claimed"}, cli: []string{"claim", "{card}", "--ttl", "60"},
			method: post, path: verbPath("claim"), body: `{"ttl_seconds":60}`,
		},
		{
			verb: "Heartbeat", given: cardAfter(cardClaimed), events: []string{"heartbeat"}, cli: []string{"heartbeat", "{card}", "--run", "{run}", "--note", "half way"},
			method: post, path: verbPath("heartbeat"), body: `{"run_id":{run},"note":"half way"}`,
		},
		{
			verb: "Complete", given: cardAfter(cardClaimed), events: []string{"completed"},
			cli:    []string{"complete", "{card}", "--run", "{run}", "--summary", "s", "--result", "r", "--metadata", `{"files":3}`},
			method: post, path: verbPath("complete"), body: `{"run_id":{run},"summary":"s","result":"r","metadata":{"files":3}}`,
		},
		{
			verb: "Complete", given: cardAfter(cardBlocked), events: []string{"completed"}, cli: []string{"complete", "{card}", "--result", "r"},
			method: post, path: verbPath("complete"), body: `{"result":"r"}`,
		},
		{
			verb: "Block", given: cardAfter(cardClaimed), events: []string{"blocked"},
			cli:    []string{"block", "{card}", "which", "colour?", "--kind", "needs_input", "--run", "{run}"},
			method: post, path: verbPath("block"), body: `{"run_id":{run},"reason":"which colour?","kind":"needs_input"}`,
		},
		{
			verb: "Unblock", given: cardAfter(cardBlocked), events: []string{"unblocked"}, cli: []string{"unblock", "{card}", "--reason", "red"},
			method: post, path: verbPath("unblock"), body: `{"reason":"red"}`,
		},
		{
			verb: "Schedule", given: cardAfter(), events: []string{"scheduled"},
			cli:    []string{"schedule", "{card}", "for", "later", "--at", "2035-01-01T09:00:00Z"},
			method: post, path: verbPath("schedule"), body: `{"reason":"for later","due_at":2051254800}`,
		},
		{
			verb: "Schedule", given: cardAfter(), events: []string{"scheduled"},
			cli:    []string{"schedule", "{card}", "--rule", "0 9 * * 1", "--zone", "Europe/Berlin", "--at", "2035-01-01 09:00"},
			method: post, path: verbPath("schedule"), body: `{"rule":"0 9 * * 1","zone":"Europe/Berlin","due_at":"2035-01-01 09:00"}`,
		},
		{
			verb: "PromoteByHand", given: cardAfter(cardLinked), events: []string{"unlinked", "promoted_manual"}, cli: []string{"promote", "{card}", "hurry", "--force"},
			method: post, path: verbPath("promote"), body: `{"reason":"hurry","force":true}`,
		},
		{
			verb: "RequestReview", given: cardAfter(cardClaimed), events: []string{"review_requested"},
			cli:    []string{"request-review", "{card}", "--summary", "s", "--reviewer", "critic", "--run", "{run}", "--metadata", `{"files":3}`},
			method: post, path: verbPath("request-review"), body: `{"run_id":{run},"summary":"s","reviewer":"critic","metadata":{"files":3}}`,
		},
		{
			verb: "RequestChanges", given: cardAfter(cardInReview, cardClaimedForReview), events: []string{"changes_requested"},
			cli:    []string{"request-changes", "{card}", "tests", "fail", "--run", "{run}"},
			method: post, path: verbPath("request-changes"), body: `{"run_id":{run},"reason":"tests fail"}`,
		},
		{
			verb: "ReopenReview", given: cardAfter(cardDone), events: []string{"review_reopened"}, cli: []string{"reopen-review", "{card}", "look", "again"},
			method: post, path: verbPath("reopen-review"), body: `{"reason":"look again"}`,
		},
		{
			verb: "Specify", given: roughCard, events: []string{"specified", "promoted"},
			cli:    []string{"specify", "{card}", "--title", "clear", "--body", "words", "--assignee", "dev"},
			method: post, path: verbPath("specify"), body: `{"title":"clear","body":"words","assignee":"dev"}`,
		},
		{
			verb: "Decompose", given: roughCard, events: []string{"decomposed"}, cli: []string{"decompose", "{card}", "--child", "one", "--child", "two", "--child-assignee", "dev"},
			method: post, path: verbPath("decompose"), body: `{"children":[{"title":"one","assignee":"dev"},{"title":"two","assignee":"dev"}]}`,
		},
		{
			verb: "Edit", given: cardAfter(), events: []string{"edited", "reprioritized"},
			cli:    []string{"edit", "{card}", "--title", "other", "--priority", "7", "--max-runtime", "1h", "--skill", "go"},
			method: http.MethodPatch, path: "/tasks/{card}", body: `{"title":"other","priority":7,"max_runtime_seconds":3600,"skills":["go"]}`,
		},
		{
			verb: "Edit", given: cardAfter(cardDone), events: []string{"edited"}, cli: []string{"edit", "{card}", "--result", "better", "--summary", "short", "--metadata", `{"n":1}`},
			method: http.MethodPatch, path: "/tasks/{card}", body: `{"result":"better","summary":"short","metadata":{"n":1}}`,
		},
		{
			verb: "SetModel", given: cardAfter(), events: []string{"model_override_set", "reasoning_effort_set"},
			cli:    []string{"set-model", "{card}", "m", "--provider", "p", "--reasoning", "low"},
			method: post, path: verbPath("set-model"), body: `{"model_override":"m","provider_override":"p","reasoning_effort":"low"}`,
		},
		{
			verb: "Reclaim", given: cardAfter(cardClaimed), events: []string{"reclaimed"}, cli: []string{"reclaim", "{card}", "--reason", "stuck"},
			method: post, path: verbPath("reclaim"), body: `{"reason":"stuck"}`,
		},
		{
			verb: "Reassign", given: cardAfter(cardClaimed), events: []string{"reclaimed", "assigned"},
			cli:    []string{"reassign", "{card}", "critic", "--reclaim", "--reason", "stuck"},
			method: post, path: verbPath("reassign"), body: `{"assignee":"critic","reclaim_first":true,"reason":"stuck"}`,
		},
		{
			verb: "Move", given: cardAfter(), events: []string{"status"}, cli: []string{"move", "{card}", "triage", "--reason", "too early"},
			method: post, path: verbPath("move"), body: `{"status":"triage","reason":"too early"}`,
		},
		{
			verb: "Move", given: cardAfter(cardClaimed), events: []string{"completed"}, cli: []string{"move", "{card}", "done"},
			method: http.MethodPatch, path: "/tasks/{card}", body: `{"status":"done"}`,
		},
		{
			verb: "Terminate", given: cardAfter(cardClaimed), events: []string{"reclaimed"}, cli: []string{"terminate", "{run}", "--reason", "stuck"},
			method: post, path: "/runs/{run}/terminate", body: `{"reason":"stuck"}`,
		},
		{
			verb: "Archive", given: cardAfter(cardClaimed), events: []string{"archived"}, cli: []string{"archive", "{card}"},
			method: post, path: verbPath("archive"),
		},
		{
			verb: "AuthorizeExistingPR", given: cardAfter(), events: []string{"existing_pr_authorized"}, cli: []string{"authorize-existing-pr", "{card}"},
			method: post, path: verbPath("authorize-existing-pr"),
		},
		{verb: "Pause", given: cardAfter(), cli: []string{"pause", "too", "much"}, method: post, path: "/pause", body: `{"reason":"too much"}`},
		{verb: "Resume", given: cardAfter(), cli: []string{"resume"}, method: post, path: "/resume"},
		{
			verb: "Purge", given: cardAfter(cardArchived), events: []string{"deleted"}, cli: []string{"archive", "--rm", "{card}"},
			method: post, path: verbPath("purge"),
		},
		{
			verb: "Delete", given: cardAfter(cardLinked), events: []string{"deleted"}, cli: []string{"delete", "{card}"},
			method: http.MethodDelete, path: "/tasks/{card}",
		},
	}
}
