package tools

import (
	"context"
	"strconv"
	"time"

	"gatewayd/kanban"
)

// enders are the tools with which a worker ends its attempt. Exactly one of them, last, and then the worker exits.
func enders() []Tool {
	metadata := param{name: "metadata", kind: object, about: "facts about the work, kept with the run"}
	artifacts := param{name: "artifacts", kind: list, about: "files in the workspace to keep with the card"}
	return []Tool{
		{
			Name: "kanban_complete", Ends: true, run: complete,
			About: "End your card as done. Call it once, last, with a summary of what was done.",
			params: []param{
				cardParam,
				{name: "summary", kind: text, about: "what was done, in a few sentences for people"},
				metadata,
				{name: "result", kind: text, about: "the result itself, if it is a text"},
				{name: "created_cards", kind: list, about: "ids of the cards that you really created for this"},
				artifacts,
			},
		},
		{
			Name: "kanban_block", Ends: true, run: block,
			About: "End your attempt because you cannot go on without somebody. Say what you need.",
			params: []param{
				cardParam,
				{name: "reason", kind: text, must: true, about: "what you need, and from whom"},
				{name: "kind", kind: text, about: "what sort of block", one: []string{kanban.BlockDependency, kanban.BlockNeedsInput, kanban.BlockCapability, kanban.BlockTransient}},
			},
		},
		{
			Name: "kanban_schedule", Ends: true, run: schedule,
			About: "End your attempt because there is nothing to do until a time. The card wakes then.",
			params: []param{
				cardParam,
				{name: "reason", kind: text, about: "what it waits for"},
				{name: "due_at", kind: text, about: "when it wakes: RFC 3339, like 2030-01-31T09:00:00Z, or seconds since 1970; default: when a person lets it"},
				{name: "rule", kind: text, about: "for work that comes back: five fields of cron, or @daily and its like"},
				{name: "zone", kind: text, about: "IANA name of the zone in which rule is read; default UTC"},
			},
		},
		{
			Name: "kanban_request_review", Ends: true, run: requestReview,
			About: "End your attempt because the work is done and somebody should look at it before the card is.",
			params: []param{
				cardParam,
				{name: "summary", kind: text, must: true, about: "what was done, and what to look at"},
				{name: "reviewer", kind: text, about: "the lane or person that reviews"},
				metadata, artifacts,
			},
		},
		{
			Name: "kanban_request_changes", Ends: true, run: requestChanges,
			About:  "End your review because the work is not good yet. The card goes back to whoever did it.",
			params: []param{cardParam, {name: "reason", kind: text, must: true, about: "what has to be changed"}},
		},
	}
}

func complete(ctx context.Context, c *call) (map[string]any, error) {
	done := kanban.Completion{
		Run: c.actor.Fence(c.task), Summary: c.text("summary"), Result: c.text("result"), Metadata: c.object("metadata"), CreatedCards: c.list("created_cards"),
		Artifacts: c.list("artifacts"),
	}
	if done.Summary == "" && done.Result == "" {
		return nil, refuse("the completion of "+c.task, "has neither summary nor result", "call again and say in summary what was done")
	}
	if err := c.board.Complete(ctx, c.task, done); err != nil {
		return nil, err
	}
	return c.now("done"), nil
}

func block(ctx context.Context, c *call) (map[string]any, error) {
	err := c.board.Block(ctx, c.task, kanban.Block{Run: c.actor.Fence(c.task), Reason: c.text("reason"), Kind: c.text("kind")})
	if err != nil {
		return nil, err
	}
	return c.now("blocked"), nil
}

// now says which card was changed and what it is.
func (c *call) now(status string) map[string]any {
	return map[string]any{"task_id": c.task, "status": status}
}

func schedule(ctx context.Context, c *call) (map[string]any, error) {
	due, err := parseDue(c.text("due_at"))
	if err != nil {
		return nil, err
	}
	timer, err := c.board.Schedule(ctx, c.task, kanban.Schedule{
		Run: c.actor.Fence(c.task), Reason: c.text("reason"), Due: due, Rule: c.text("rule"), Zone: c.text("zone"),
	})
	if err != nil {
		return nil, err
	}
	body := c.now("scheduled")
	if timer.Due != 0 {
		body["due_at"] = timer.Due
	}
	return body, nil
}

func parseDue(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds > 0 {
		return time.Unix(seconds, 0), nil
	}
	due, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, refuse("parameter due_at of kanban_schedule", "is no time", "send it like 2030-01-31T09:00:00Z")
	}
	return due, nil
}

func requestReview(ctx context.Context, c *call) (map[string]any, error) {
	err := c.board.RequestReview(ctx, c.task, kanban.Review{
		Run: c.actor.Fence(c.task), Summary: c.text("summary"), Reviewer: c.text("reviewer"), Metadata: c.object("metadata"), Artifacts: c.list("artifacts"),
	})
	if err != nil {
		return nil, err
	}
	return c.now("review"), nil
}

func requestChanges(ctx context.Context, c *call) (map[string]any, error) {
	if err := c.board.RequestChanges(ctx, c.task, c.actor.Fence(c.task), c.text("reason")); err != nil {
		return nil, err
	}
	card, err := c.board.Task(ctx, c.task)
	return c.now(string(card.Status)), err
}
