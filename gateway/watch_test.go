package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
)

// talker is a tool that says much.
type talker struct{}

func (talker) Spec() provider.ToolSpec {
	return provider.ToolSpec{Name: "talk", Description: "talks", Parameters: json.RawMessage(`{"type":"object"}`)}
}
func (talker) ReadOnly(json.RawMessage) bool { return true }
func (talker) Run(_ context.Context, c tool.Call) tool.Result {
	return tool.Result{Content: strings.Repeat("what "+c.ID+" found. ", 500), Effect: tool.EffectNone}
}

// heard is what a watcher was told, pieces of one text joined.
type heard struct {
	mu   sync.Mutex
	all  []Event
	want int // results
	full chan struct{}
}

func (h *heard) take(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.all); n > 0 && joinable(h.all[n-1], e) {
		h.all[n-1].Text += e.Text
		return
	}
	h.all = append(h.all, e)
	if e.Kind == EventToolFinished {
		if h.want--; h.want == 0 {
			close(h.full)
		}
	}
}

// lines are the events but for the first, which tells where the watcher came in.
func (h *heard) lines() (lines []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.all[1:] {
		lines = append(lines, fmt.Sprintf("%s %s %s %s", e.Kind, e.CallID, e.Turn, e.Text))
	}
	return lines
}

// Who comes into the middle of a turn that has told more than is kept in memory hears all of it, in its order, once: what is left to the
// rows is read from there.
func TestWhoComesIntoALongTurnHearsAllOfIt(t *testing.T) {
	const rounds = 40
	var script []fakellm.Response
	for i := range rounds {
		script = append(script, fakellm.ToolCall{Name: "talk", Text: fmt.Sprintf("step %d: %s", i, strings.Repeat("so it goes. ", 300)), Args: map[string]any{"about": strings.Repeat("it ", 100)}})
	}
	h := newHouse(t, func(o *Options) { o.Tools = tools(talker{}) }, append(script, fakellm.Hang{})...)
	watch := func() (*heard, func()) {
		who := &heard{want: rounds, full: make(chan struct{})}
		ctx, leave := context.WithCancel(t.Context())
		var gone sync.WaitGroup
		wait := h.Attach("s1", who.take)
		gone.Go(func() { _ = wait(ctx) })
		return who, func() { leave(); gone.Wait() }
	}
	first, leave := watch()
	defer leave()
	h.post(Say{Session: "s1", Source: SourceCLI, Text: "talk to me"})
	<-first.full
	late, leave := watch()
	defer leave()
	<-late.full
	h.Interrupt("s1", Stop)
	want, got := first.lines(), late.lines()
	for i, line := range got {
		if i >= len(want) || line != want[i] {
			t.Fatalf("event %d is %.200q", i, line)
		}
	}
	if len(got) < 3*rounds {
		t.Errorf("%d events", len(got))
	}
	h.feeds.mu.Lock()
	defer h.feeds.mu.Unlock()
	if f := h.feeds.of["s1"]; f != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.bytes > 2*ringBytes {
			t.Errorf("%d bytes are kept of the turn", f.bytes)
		}
	}
}
