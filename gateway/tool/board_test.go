package tool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// board records what a worker said; fail makes every change fail.
type board struct {
	said []string
	fail error
}

func (b *board) Show(_ context.Context, task string) (any, error) {
	return map[string]string{"id": task}, nil
}

func (b *board) say(format string, a ...any) error {
	if b.fail == nil {
		b.said = append(b.said, fmt.Sprintf(format, a...))
	}
	return b.fail
}

func (b *board) Complete(_ context.Context, d Completion) error {
	return b.say("complete %s %s %v %v", d.Summary, d.Result, d.Metadata, d.CreatedCards)
}

func (b *board) Block(_ context.Context, reason, kind string) error {
	return b.say("block %s %s", reason, kind)
}

func (b *board) Comment(_ context.Context, task, body string) error {
	return b.say("comment %s %s", task, body)
}

func TestBoardToolsSayWhatTheModelSaid(t *testing.T) {
	for _, c := range []struct {
		tool  string
		args  map[string]any
		want  string // what the board heard
		says  string // what the model reads
		ended bool
	}{
		{"kanban_show", map[string]any{"task_id": "t_1"}, "", `"id":"t_1"`, false},
		{"kanban_comment", map[string]any{"task_id": "t_1", "body": "hm"}, "comment t_1 hm", `{"ok":true}`, false},
		{"kanban_comment", map[string]any{"body": " "}, "", "nothing was changed", false},
		{"kanban_complete", map[string]any{"summary": "s", "metadata": map[string]any{"a": 1}, "created_cards": "t_2"}, "complete s  map[a:1] [t_2]", `{"ok":true}`, true},
		{"kanban_complete", map[string]any{"summary": ""}, "", "not completed", false},
		{"kanban_complete", map[string]any{"summary": "s", "metadata": "x"}, "", "nothing was changed", false},
		{"kanban_block", map[string]any{"reason": "r", "kind": "k"}, "block r k", `{"ok":true}`, true},
		{"kanban_block", map[string]any{}, "", "not blocked", false},
	} {
		b := &board{}
		tools, ended := BoardTools(b)
		r := NewSet(tools...).Run(t.Context(), Call{Name: c.tool, Args: args(c.args), Policy: Policy{Context: "worker"}})
		if got := strings.Join(b.said, ";"); got != c.want || !strings.Contains(r.Content, c.says) || ended() != c.ended {
			t.Errorf("%s %v: board heard %q, model read %q, ended %v", c.tool, c.args, got, r.Content, ended())
		}
	}
}

func TestARefusedCompletionDoesNotEndTheCard(t *testing.T) {
	b := &board{fail: errors.New("a newer run has this card; nothing was changed")}
	tools, ended := BoardTools(b)
	r := NewSet(tools...).Run(t.Context(), Call{Name: "kanban_complete", Args: args(map[string]any{"summary": "s"}), Policy: Policy{Context: "worker"}})
	if !r.Err || ended() || !strings.Contains(r.Content, "newer run") {
		t.Errorf("%+v, ended %v", r, ended())
	}
}
