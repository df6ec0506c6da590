package gateway

import (
	"strings"
	"testing"
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/internal/fakellm"
)

// Signed reasoning is stored with the calls that came of it and goes back with them, in the same turn and after a restart.
func TestSignedReasoningIsStoredWithItsCalls(t *testing.T) {
	thinking := fakellm.Raw{Body: strings.Join([]string{
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"hm"}}`,
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"SIGNED"}}`,
		`data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c1","name":"nothing_of_that_name","input":{}}}`,
		`data: {"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `data: {"type":"message_stop"}`, "",
	}, "\n\n")}
	var h *house
	anthropic := func(o *Options) {
		if h == nil {
			return
		}
		o.Model = provider.New(provider.Options{BaseURL: h.llm.URL(), API: provider.APIAnthropic, Name: fakellm.Model, Effort: "low", FirstToken: 30 * time.Second})
	}
	h = newHouse(t, nil)
	h.restart(anthropic)
	h.llm.Push(thinking, fakellm.Text{Text: "done"}, fakellm.Text{Text: "again"})
	if r := h.say(Say{Text: "think"}); r.Text != "done" {
		t.Fatalf("%+v", r)
	}
	h.restart(anthropic)
	if r := h.say(Say{Text: "once more"}); r.Text != "again" {
		t.Fatalf("%+v", r)
	}
	requests := h.llm.Requests()
	const block = `[{"signature":"SIGNED","thinking":"hm","type":"thinking"},{"type":"tool_use","id":"c1"`
	for i, want := range []bool{false, true, true} {
		body := string(requests[i].Body)
		if strings.Contains(body, block) != want || !strings.Contains(body, `"budget_tokens":4096`) {
			t.Errorf("request %d: %s", i, body)
		}
	}
	if text := string(h.rows("s1")[1].ToolCalls); !strings.Contains(text, "SIGNED") {
		t.Errorf("stored: %s", text)
	}
}
