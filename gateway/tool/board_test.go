package tool

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"gatewayd/kanban"
	"gatewayd/kanban/worker/tools"
)

// desk answers each call with what a test says.
type desk struct{ err error }

func (desk) Tools() []tools.Tool {
	return (&tools.Desk{Worker: &kanban.Fence{Task: "t_1", Run: 7}}).Tools()
}

func (d desk) Call(_ context.Context, name string, _ json.RawMessage) tools.Answer {
	if d.err != nil {
		return tools.Answer{Body: map[string]any{"error": d.err.Error()}, Err: d.err}
	}
	return tools.Answer{Body: map[string]any{"ok": true}, Ended: name == "kanban_complete"}
}

func TestABoardToolTellsWhetherTheCardHasEnded(t *testing.T) {
	for _, c := range []struct {
		tool   string
		err    error
		says   string
		effect Effect
		ended  bool
	}{
		{"kanban_show", nil, `{"ok":true}`, EffectNone, false},
		{"kanban_comment", nil, `{"ok":true}`, EffectDone, false},
		{"kanban_complete", nil, `{"ok":true}`, EffectDone, true},
		{"kanban_complete", errors.New("a newer run has this card"), `{"error":"a newer run has this card"}`, EffectDone, false},
	} {
		list, ended := BoardTools(desk{c.err})
		r := NewSet(list...).Run(t.Context(), Call{Name: c.tool, Args: args(map[string]any{}), Policy: Policy{Context: "worker"}})
		if r.Content != c.says || r.Err != (c.err != nil) || r.Effect != c.effect || ended() != c.ended {
			t.Errorf("%s: %+v, ended %v", c.tool, r, ended())
		}
	}
}

func TestABoardToolBelongsToAWorker(t *testing.T) {
	list, _ := BoardTools(desk{})
	r := NewSet(list...).Run(t.Context(), Call{Name: "kanban_complete", Args: args(map[string]any{}), Policy: Policy{Context: "api"}})
	if !r.Err || !strings.Contains(r.Content, "nothing was changed") {
		t.Errorf("%+v", r)
	}
	for _, tool := range list {
		if name := tool.Spec().Name; name == "kanban_list" || name == "kanban_unblock" {
			t.Errorf("a worker is offered %s", name)
		}
	}
}
