package tool

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"gatewayd/gateway/provider"
	"gatewayd/kanban/worker/tools"
)

// Desk answers a worker's calls: tools.Desk.
type Desk interface {
	Tools() []tools.Tool
	Call(ctx context.Context, name string, args json.RawMessage) tools.Answer
}

// BoardTools are the tools of a worker: they exist only in a process that was given a card. What each does, and may do, is
// the desk's to say; the same tools are served to other agents. The function reports whether one of them has ended the card.
func BoardTools(desk Desk) (list []Tool, ended func() bool) {
	end := &atomic.Bool{}
	for _, t := range desk.Tools() {
		list = append(list, boardTool{Tool: t, desk: desk, end: end})
	}
	return list, end.Load
}

type boardTool struct {
	tools.Tool
	desk Desk
	end  *atomic.Bool
}

func (t boardTool) Spec() provider.ToolSpec {
	return provider.ToolSpec{Name: t.Name, Description: t.About, Parameters: t.Schema()}
}

func (t boardTool) ReadOnly(json.RawMessage) bool { return t.Tool.ReadOnly }

func (t boardTool) Permission() Permission { return NeedsCard }

// Run answers in JSON: {"ok":true,…} or {"error":…}, whose text says what is unchanged and what to try.
func (t boardTool) Run(ctx context.Context, call Call) Result {
	effect := EffectDone
	if t.Tool.ReadOnly {
		effect = EffectNone
	}
	answer := t.desk.Call(ctx, t.Name, call.Args)
	if answer.Ended {
		t.end.Store(true)
	}
	return Result{Content: answer.Text(), Err: answer.Err != nil, Effect: effect, Interrupted: answer.Err != nil && ctx.Err() != nil}
}
