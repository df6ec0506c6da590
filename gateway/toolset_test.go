package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

// visitors are tools that come and go.
type visitors struct {
	mu    sync.Mutex
	tools []tool.Tool
}

func (v *visitors) set(names ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tools = nil
	for _, name := range names {
		v.tools = append(v.tools, visitor(name))
	}
}

func (v *visitors) Tools(context.Context) []tool.Tool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.tools
}

func (v *visitors) Find(name string) tool.Tool {
	for _, t := range v.Tools(context.Background()) {
		if t.Spec().Name == name {
			return t
		}
	}
	return nil
}

type visitor string

func (v visitor) Spec() provider.ToolSpec {
	return provider.ToolSpec{Name: string(v), Description: "of a guest", Parameters: json.RawMessage(`{"type":"object"}`)}
}
func (v visitor) ReadOnly(json.RawMessage) bool { return true }
func (v visitor) Run(context.Context, tool.Call) tool.Result {
	return tool.Result{Content: string(v) + " ran", Effect: tool.EffectNone}
}

func toolsIn(t *testing.T, r fakellm.Request) string {
	t.Helper()
	var body struct {
		Tools []struct{ Function struct{ Name string } }
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, tool := range body.Tools {
		names = append(names, tool.Function.Name)
	}
	return strings.Join(names, " ")
}

func TestASessionKeepsTheToolsOfItsFirstRequest(t *testing.T) {
	v := &visitors{}
	v.set("mcp_b", "mcp_a")
	options := func(o *Options) { o.Tools = tools(visitor("own")).WithLate(v) }
	h := newHouse(t, options, fakellm.Text{Text: "1"}, fakellm.ToolCall{Name: "mcp_a", Args: map[string]any{}}, fakellm.Text{Text: "2"}, fakellm.Text{Text: "3"}, fakellm.ToolCall{Name: "mcp_b", Args: map[string]any{}}, fakellm.Text{Text: "4"})
	first := h.say(Say{Text: "one"})
	if !first.Completed {
		t.Fatalf("%s: %v", first.ExitReason, first.Error)
	}
	v.set("mcp_a", "mcp_c") // one came, one went
	h.say(Say{Text: "two"})
	h.say(Say{Text: "other", Session: "s2"})
	h.restart(options)
	h.say(Say{Text: "three"})
	want := []string{"mcp_a mcp_b own", "mcp_a mcp_b own", "mcp_a mcp_b own", "mcp_a mcp_c own", "mcp_a mcp_b own", "mcp_a mcp_b own"}
	for i, r := range h.llm.Main() {
		if got := toolsIn(t, r); got != want[i] {
			t.Errorf("request %d offers %q, want %q", i, got, want[i])
		}
	}
	var results []string
	for _, row := range h.rows("s1") {
		if row.Role == roleTool {
			results = append(results, row.Content)
		}
	}
	if len(results) != 2 || results[0] != "mcp_a ran" || !strings.Contains(results[1], "is not there any more") {
		t.Errorf("%q in %s", results, shape(h.rows("s1")))
	}
}

// stout is a tool whose description fills a window.
type stout struct{ visitor }

func (s stout) Spec() provider.ToolSpec {
	spec := s.visitor.Spec()
	spec.Description = strings.Repeat("what it does, at length. ", 400)
	return spec
}

// The tools of guests are in every request, so they are in the estimate of what a request takes.
func TestAGuestsToolsWeighInTheWindow(t *testing.T) {
	v := &visitors{}
	h := newHouse(t, func(o *Options) { o.Tools = tools(visitor("own")).WithLate(v) }, fakellm.Text{Text: "1"})
	if _, err := h.store.CreateSession(t.Context(), sessiondb.NewSession{ID: "s1", Source: SourceAPI}); err != nil {
		t.Fatal(err)
	}
	light, err := h.Window(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	v.tools = []tool.Tool{stout{"mcp_stout"}}
	heavy, err := h.Window(t.Context(), "s1")
	if err != nil || heavy.Used < light.Used+2000 {
		t.Errorf("%d tokens without a guest's tool of ten thousand characters, %d with it: %v", light.Used, heavy.Used, err)
	}
}

// A turn gives its results the room of the model that answers: the chosen one, and a fallback's from its first answer on.
func TestResultsGetTheRoomOfTheModelThatAnswers(t *testing.T) {
	h := newHouse(t, nil)
	small := provider.New(provider.Options{BaseURL: h.llm.URL(), Name: "small", ContextLength: 8_000})
	if got, want := h.roomOf(t.Context(), small), tool.BudgetFor(8_000); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	room := tool.NewRoom(tool.BudgetFor(0), nil)
	before := room.Left()
	room.Narrow(tool.BudgetFor(8_000))
	if left := room.Left(); left >= before || left != tool.BudgetFor(8_000).Result {
		t.Errorf("%d characters are left where a small model answers, %d before", left, before)
	}
	room.Narrow(tool.BudgetFor(1_000_000))
	if left := room.Left(); left != tool.BudgetFor(8_000).Result {
		t.Errorf("a larger model gives back room: %d", left)
	}
}
