package provider

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestOfflineSaysWhatItIsAndStreams(t *testing.T) {
	s := newSeen()
	got, err := Offline().Complete(t.Context(), ask, s.sink)
	if err != nil || s.text() != got.Text || len(s.deltas) < 5 || got.Usage.Prompt == 0 || got.Usage.Completion == 0 {
		t.Fatalf("%+v, %v in %d pieces", got, err, len(s.deltas))
	}
	for _, want := range []string{"offline model", "model.base_url", "> hi <there>"} {
		if !strings.Contains(got.Text, want) {
			t.Errorf("answer lacks %q: %s", want, got.Text)
		}
	}
	if again, _ := Offline().Complete(t.Context(), ask, nil); again.Text != got.Text || again.Usage != got.Usage {
		t.Error("not deterministic")
	}
}

func TestOfflineCallsTheTerminalAndQuotesIt(t *testing.T) {
	request := Request{Tools: []ToolSpec{{Name: "terminal"}}, Messages: []Message{{Role: "user", Content: "please run\n$ echo \"a b\" | wc\r\nthanks"}}}
	got, err := Offline().Complete(t.Context(), request, nil)
	if err != nil || len(got.ToolCalls) != 1 || got.FinishReason != "tool_calls" {
		t.Fatalf("%+v, %v", got, err)
	}
	var arguments struct{ Command string }
	if err := json.Unmarshal([]byte(got.ToolCalls[0].Arguments), &arguments); err != nil || arguments.Command != `echo "a b" | wc` {
		t.Errorf("%+v, %v", arguments, err)
	}
	request.Messages = append(request.Messages, Message{Role: "assistant", ToolCalls: got.ToolCalls}, Message{Role: "tool", ToolCallID: got.ToolCalls[0].ID, Content: "1 2 4\nend\n"})
	answer, err := Offline().Complete(t.Context(), request, nil)
	if err != nil || len(answer.ToolCalls) != 0 || !strings.Contains(answer.Text, "> 1 2 4\n> end\n") || !strings.Contains(answer.Text, "offline model") {
		t.Errorf("%+v, %v", answer, err)
	}
}

func TestOfflineWithoutATerminalOnlyTalks(t *testing.T) {
	raw := Message{Role: "user", Raw: json.RawMessage(`{"role":"user","content":[{"type":"text","text":"$ ls"}]}`)}
	if got, err := Offline().Complete(t.Context(), Request{Messages: []Message{raw}}, nil); err != nil || len(got.ToolCalls) != 0 || !strings.Contains(got.Text, "> $ ls") {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := Offline().Complete(t.Context(), Request{}, nil); err != nil || !strings.Contains(got.Text, "offline model") {
		t.Errorf("no message at all: %+v, %v", got, err)
	}
}

func TestOfflineEndsWithItsCaller(t *testing.T) {
	stopped := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := newSeen()
	_, err := Offline().Complete(ctx, ask, func(d Delta) { s.sink(d); cancel(stopped) })
	failed, ok := errors.AsType[*Error](err)
	if !ok || failed.Class != Interrupted || !errors.Is(err, stopped) || failed.Partial.Text == "" || failed.Partial.Text != s.text() {
		t.Errorf("%+v, %v", failed, err)
	}
}
