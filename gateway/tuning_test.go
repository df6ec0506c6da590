package gateway

import (
	"testing"

	"gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
)

// A turn is of one mind: what changes while it runs counts for the next one.
func TestATurnKeepsTheTuningItBeganWith(t *testing.T) {
	gate := make(chan struct{})
	h := newHouse(t, func(o *Options) { o.Tools = tool.NewSet(tool.SessionSearch{}) },
		fakellm.ToolCall{Name: "no_such_tool", Args: "{}", Gate: gate}, fakellm.Text{Text: "first"})
	other := fakellm.New(t, fakellm.Text{Text: "second"})
	done := make(chan Result, 1)
	go func() { done <- h.say(Say{Text: "one"}) }()
	if _, err := h.llm.Wait(soon(t), 1); err != nil {
		t.Fatal(err)
	}
	next := h.opts.Tuning()
	next.Model, next.MaxIterations = model(other), 1
	h.Tune(next)
	close(gate)
	if r := <-done; r.Text != "first" || r.Calls != 2 {
		t.Errorf("the turn that ran: %q after %d calls", r.Text, r.Calls)
	}
	if r := h.say(Say{Text: "two"}); r.Text != "second" {
		t.Errorf("the next one: %q", r.Text)
	}
}
