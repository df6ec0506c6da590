package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"

	"gatewayd/gateway/provider"
)

// Board is the one card a worker may speak for. Who implements it fences every change by the worker's run: a worker of an older
// run is refused everything. An empty task means the worker's own.
type Board interface {
	Show(ctx context.Context, task string) (any, error) // marshalled to JSON for the model
	Complete(ctx context.Context, done Completion) error
	Block(ctx context.Context, reason, kind string) error
	Comment(ctx context.Context, task, body string) error
}

// Completion is what a worker says at the end of its card. One of Summary and Result is set.
type Completion struct {
	Summary      string         `json:"summary"`
	Result       string         `json:"result"`
	Metadata     map[string]any `json:"metadata"`
	CreatedCards List           `json:"created_cards"`
}

// List is a list of strings; a single string from a model counts as a list of one.
type List []string

// UnmarshalJSON takes both forms.
func (l *List) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*l = List{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(l))
}

// BoardTools are the tools of a worker: they exist only in a process that was given a card. The function reports whether one of
// them has completed or blocked the card.
func BoardTools(board Board) (tools []Tool, ended func() bool) {
	var end atomic.Bool
	return []Tool{
		boardTool{
			name: "kanban_show", describe: "Show a card with its comments, links and earlier runs. Without task_id: your own card.",
			schema: `{"type":"object","properties":{"task_id":{"type":"string"}}}`, readOnly: true, run: show(board),
		},
		boardTool{
			name: "kanban_comment", describe: "Leave a comment on a card, for the people and workers who read it next.",
			schema: `{"type":"object","properties":{"task_id":{"type":"string"},"body":{"type":"string"}},"required":["body"]}`, run: comment(board),
		},
		boardTool{
			name: "kanban_complete", describe: "End your card as done. Call it exactly once, last, with a summary of what was done.",
			schema: `{"type":"object","properties":{"summary":{"type":"string"},"result":{"type":"string"},"metadata":{"type":"object"},` +
				`"created_cards":{"type":"array","items":{"type":"string"}}},"required":["summary"]}`, run: complete(board, &end),
		},
		boardTool{
			name: "kanban_block", describe: "End your card as blocked, when you cannot go on without somebody. Say what you need.",
			schema: `{"type":"object","properties":{"reason":{"type":"string"},"kind":{"type":"string"}},"required":["reason"]}`, run: block(board, &end),
		},
	}, end.Load
}

type boardTool struct {
	name, describe, schema string
	readOnly               bool
	run                    func(ctx context.Context, args json.RawMessage) (any, error)
}

func (t boardTool) Spec() provider.ToolSpec {
	return provider.ToolSpec{Name: t.name, Description: t.describe, Parameters: json.RawMessage(t.schema)}
}

func (t boardTool) ReadOnly(json.RawMessage) bool { return t.readOnly }

func (t boardTool) Permission() Permission { return NeedsCard }

// Run answers in JSON: {"ok":true,…} or {"error":…}, whose text says what is unchanged and what to try.
func (t boardTool) Run(ctx context.Context, call Call) Result {
	effect := EffectDone
	if t.readOnly {
		effect = EffectNone
	}
	answer, err := t.run(ctx, call.Args)
	if err != nil {
		return Result{Content: asJSON(map[string]any{"error": err.Error()}), Err: true, Effect: effect, Interrupted: ctx.Err() != nil}
	}
	return Result{Content: asJSON(answer), Effect: effect}
}

func show(board Board) func(context.Context, json.RawMessage) (any, error) {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var args struct {
			Task string `json:"task_id"`
		}
		if err := decode(raw, &args); err != nil {
			return nil, err
		}
		return board.Show(ctx, args.Task)
	}
}

func comment(board Board) func(context.Context, json.RawMessage) (any, error) {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var args struct {
			Task string `json:"task_id"`
			Body string `json:"body"`
		}
		if err := decode(raw, &args); err != nil {
			return nil, err
		}
		if strings.TrimSpace(args.Body) == "" {
			return nil, fmt.Errorf("body is empty; nothing was changed")
		}
		return okay, board.Comment(ctx, args.Task, args.Body)
	}
}

func complete(board Board, end *atomic.Bool) func(context.Context, json.RawMessage) (any, error) {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var done Completion
		if err := decode(raw, &done); err != nil {
			return nil, err
		}
		if strings.TrimSpace(done.Summary+done.Result) == "" {
			return nil, fmt.Errorf("summary or result is needed; the card was not completed")
		}
		if err := board.Complete(ctx, done); err != nil {
			return nil, err
		}
		end.Store(true)
		return okay, nil
	}
}

func block(board Board, end *atomic.Bool) func(context.Context, json.RawMessage) (any, error) {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var args struct{ Reason, Kind string }
		if err := decode(raw, &args); err != nil {
			return nil, err
		}
		if strings.TrimSpace(args.Reason) == "" {
			return nil, fmt.Errorf("reason is empty; the card was not blocked")
		}
		if err := board.Block(ctx, args.Reason, args.Kind); err != nil {
			return nil, err
		}
		end.Store(true)
		return okay, nil
	}
}

var okay = map[string]bool{"ok": true}

func decode(raw json.RawMessage, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the arguments do not fit (%w); nothing was changed", err)
	}
	return nil
}

// asJSON never fails on what our tools answer; a value that cannot be marshalled is described instead.
func asJSON(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf(`{"error":%q}`, "the answer cannot be written as JSON: "+err.Error())
	}
	return string(out)
}
