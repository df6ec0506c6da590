package api

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
	toolset "gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
)

// commands is a terminal that runs nothing.
type commands struct{}

func (commands) Spec() provider.ToolSpec        { return provider.ToolSpec{Name: "terminal"} }
func (commands) ReadOnly(json.RawMessage) bool  { return false }
func (commands) Permission() toolset.Permission { return toolset.NeedsTerminal }
func (commands) Command(call toolset.Call) string {
	var args struct{ Command string }
	_ = json.Unmarshal(call.Args, &args)
	return args.Command
}

func (commands) Run(context.Context, toolset.Call) toolset.Result {
	return toolset.Result{Content: "it ran", Effect: toolset.EffectDone}
}

// newAsking is a house whose terminal asks.
func newAsking(t *testing.T, script ...fakellm.Response) *house {
	t.Helper()
	h := newHouse(t, nil, script...)
	approvals := gateway.NewApprovals(h.store, time.Minute, nil)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	g := gateway.New(gateway.Options{
		Store: h.store, Model: provider.New(provider.Options{BaseURL: h.llm.URL(), Name: fakellm.Model, Transport: transport}), Sole: true, Grace: -1,
		Tools: toolset.NewSet(commands{}), Terminal: toolset.Ask, Approvals: approvals,
	})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = g.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	h.Config.Handler = asDescribed(New(Options{Chat: g, Sessions: h.store, Approvals: approvals, Key: testKey, Addr: h.Listener.Addr().String()}))
	return h
}

func (h *house) call(t *testing.T, method, path, body string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, h.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testKey)
	r.Header.Set("Content-Type", "application/json")
	response, err := h.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(response.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, out
}

func TestAStreamAsksAndTheAnswerComesByAnotherRequest(t *testing.T) {
	h := newAsking(t, fakellm.ToolCall{Name: "terminal", Args: map[string]any{"command": "rm -rf build"}}, fakellm.Text{Text: "cleaned"})
	stream := h.send(t, t.Context(), `{"stream":true,"messages":[{"role":"user","content":"clean up"}]}`)
	lines := bufio.NewScanner(stream.Body)
	var asked struct {
		Approval  gateway.Approval
		Decisions []string
	}
	var rest strings.Builder
	for lines.Scan() {
		if lines.Text() != "event: gatewayd.approval" {
			rest.WriteString(lines.Text() + "\n")
			continue
		}
		lines.Scan()
		if err := json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), &asked); err != nil {
			t.Fatal(err)
		}
		_, list := h.call(t, http.MethodGet, "/api/approvals", "")
		if waiting, _ := list["approvals"].([]any); len(waiting) != 1 {
			t.Errorf("%v", list)
		}
		status, decided := h.call(t, http.MethodPost, "/api/approvals/"+asked.Approval.ID, `{"decision":"always","by":"me"}`)
		if status != http.StatusOK || !strings.Contains(mustJSON(decided), `"decided_by":"api me"`) {
			t.Errorf("%d %v", status, decided)
		}
		if status, second := h.call(t, http.MethodPost, "/api/approvals/"+asked.Approval.ID, `{"decision":"deny"}`); status != http.StatusConflict || !strings.Contains(mustJSON(second), "api me") {
			t.Errorf("who comes second is answered %d %v", status, second)
		}
	}
	if asked.Approval.Effect != "rm -rf build" || len(asked.Decisions) != 4 || !strings.Contains(rest.String(), "cleaned") || !strings.Contains(rest.String(), `"status":"completed"`) {
		t.Errorf("asked %+v, rest %s", asked, rest.String())
	}
	if _, list := h.call(t, http.MethodGet, "/api/approvals", ""); mustJSON(list["approvals"]) != "[]" {
		t.Errorf("%v", list)
	}
	if _, list := h.call(t, http.MethodGet, "/api/approvals?state=all", ""); !strings.Contains(mustJSON(list), `"state":"approved"`) {
		t.Errorf("%v", list)
	}
	if _, grants := h.call(t, http.MethodGet, "/api/grants", ""); !strings.Contains(mustJSON(grants), `"rule":"recursive-delete"`) {
		t.Errorf("%v", grants)
	}
	if status, body := h.call(t, http.MethodDelete, "/api/grants/recursive-delete", ""); status != http.StatusOK {
		t.Errorf("%d %v", status, body)
	}
}

func TestWhatIsWrongWithADecisionIsSaid(t *testing.T) {
	h := newAsking(t)
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodPost, "/api/approvals/nosuch", `{"decision":"once"}`, http.StatusNotFound},
		{http.MethodPost, "/api/approvals/nosuch", `{"decision":"yes"}`, http.StatusBadRequest},
		{http.MethodPost, "/api/approvals/nosuch", `{"decide":"once"}`, http.StatusBadRequest},
		{http.MethodGet, "/api/approvals/nosuch", ``, http.StatusNotFound},
		{http.MethodGet, "/api/approvals?state=open", ``, http.StatusBadRequest},
		{http.MethodDelete, "/api/grants/nosuch", ``, http.StatusNotFound},
	} {
		if status, body := h.call(t, c.method, c.path, c.body); status != c.status {
			t.Errorf("%s %s %s: %d %v", c.method, c.path, c.body, status, body)
		}
	}
	off, _ := plain(nil)
	refused(t, ask(off, http.MethodGet, "/api/approvals", ""), http.StatusServiceUnavailable, "off")
}

func mustJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
