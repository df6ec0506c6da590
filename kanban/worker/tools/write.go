package tools

import (
	"context"

	"gatewayd/kanban"
)

func writers() []Tool {
	return []Tool{
		{
			Name: "kanban_heartbeat", run: heartbeat, params: []param{cardParam, {name: "note", kind: text, about: "what is going on"}},
			About: "Say that your work goes on, and keep your claim. For work that takes longer than ten minutes.",
		},
		{
			Name: "kanban_comment", run: comment,
			params: []param{cardParam, {name: "body", kind: text, must: true, about: "the comment"}},
			About:  "Leave a comment on a card for the people and workers who read it next.",
		},
		{
			Name: "kanban_create", run: create, params: createParams(),
			About: "Create a card for another worker, or a person, to do.",
		},
		{
			Name: "kanban_unblock", person: true, run: unblock, params: []param{cardParam},
			About: "Let a blocked or scheduled card go on.",
		},
		{
			Name: "kanban_link", run: link,
			params: []param{
				{name: "parent_id", kind: text, must: true, about: "the card that must be done first"},
				{name: "child_id", kind: text, must: true, about: "the card that waits for it"},
			},
			About: "Make one card wait for another.",
		},
	}
}

func createParams() []param {
	return []param{
		{name: "title", kind: text, must: true, about: "one line"},
		{name: "assignee", kind: text, must: true, about: "the lane that does it"},
		{name: "body", kind: text, about: "what is to be done, for somebody who knows nothing else"},
		{name: "parents", kind: list, about: "cards that must be done first"},
		{name: "tenant", kind: text, about: "namespace; default: the first parent's"},
		{name: "priority", kind: number, about: "higher goes first"},
		{name: "workspace_kind", kind: text, about: "where it is done", one: []string{"scratch", "dir", "worktree"}},
		{name: "workspace_path", kind: text, about: "absolute directory for dir and worktree"},
		{name: "project", kind: text, about: "project id"},
		{name: "triage", kind: flag, about: "park it as a rough idea"},
		{name: "idempotency_key", kind: text, about: "creating twice with one key makes one card"},
		{name: "max_runtime_seconds", kind: number, about: "end an attempt after so long"},
		{name: "initial_status", kind: text, about: "blocked: it waits for a person", one: []string{"running", "blocked"}},
		{name: "skills", kind: list, about: "skills that its worker needs"},
		{name: "goal_mode", kind: flag, about: "the worker goes on until a goal is met"},
		{name: "goal_max_turns", kind: number, about: "at most so many turns in goal mode"},
		{name: "completion_contract", kind: text, about: "what must be published: local-only, OWNER/REPO or a pull request's address"},
		{name: "model", kind: text, about: "model for its worker"},
		{name: "provider", kind: text, about: "provider of that model"},
	}
}

func heartbeat(ctx context.Context, c *call) (map[string]any, error) {
	run := c.actor.Fence(c.task)
	if run == nil {
		return nil, refuse("kanban_heartbeat", "is for the worker of a card", "nothing needs to be done: only a worker has a claim to keep")
	}
	if err := c.board.Heartbeat(ctx, c.task, *run, c.text("note"), c.ClaimTTL); err != nil {
		return nil, err
	}
	return c.now("running"), nil
}

func comment(ctx context.Context, c *call) (map[string]any, error) {
	made, err := c.board.Comment(ctx, c.task, c.actor.Name, c.text("body"))
	if err != nil {
		return nil, err
	}
	return map[string]any{"task_id": c.task, "comment_id": made.ID, "author": made.Author}, nil
}

func create(ctx context.Context, c *call) (map[string]any, error) {
	card := kanban.NewTask{
		Title: c.text("title"), Body: c.text("body"), Assignee: c.text("assignee"), Parents: c.list("parents"), Tenant: c.text("tenant"),
		Priority: c.number("priority"), WorkspaceKind: c.text("workspace_kind"), WorkspacePath: c.text("workspace_path"),
		ProjectID: c.text("project"), Triage: c.flag("triage"), IdempotencyKey: c.text("idempotency_key"),
		MaxRuntimeSeconds: c.number("max_runtime_seconds"), InitialStatus: kanban.Status(c.text("initial_status")), Skills: c.list("skills"),
		GoalMode: c.flag("goal_mode"), GoalMaxTurns: c.number("goal_max_turns"), CompletionContract: c.text("completion_contract"),
		ModelOverride: c.text("model"), ProviderOverride: c.text("provider"), CreatedBy: c.actor.Name,
	}
	if c.Worker != nil {
		card.CreatorTask = c.Worker.Task
	}
	if info, err := c.Boards.Lookup(c.slug); err == nil {
		card.DefaultWorkdir = info.DefaultWorkdir
	}
	made, err := c.board.Create(ctx, card)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"task_id": made.ID, "status": made.Status, "task": made}
	if c.Lane != nil {
		if wrong := c.Lane(made.Assignee); wrong != "" {
			body["warning"] = wrong
		}
	}
	return body, nil
}

func unblock(ctx context.Context, c *call) (map[string]any, error) {
	if err := c.board.Unblock(ctx, c.task, ""); err != nil {
		return nil, err
	}
	card, err := c.board.Task(ctx, c.task)
	return c.now(string(card.Status)), err
}

func link(ctx context.Context, c *call) (map[string]any, error) {
	parent, child := c.text("parent_id"), c.text("child_id")
	var run kanban.RunID
	if c.Worker != nil && child == c.Worker.Task {
		run = c.Worker.Run
	}
	if err := c.board.LinkAs(ctx, parent, child, run); err != nil {
		return nil, err
	}
	return map[string]any{"parent_id": parent, "child_id": child}, nil
}
