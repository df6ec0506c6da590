package web

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"gatewayd/gateway"
	"gatewayd/gateway/api"
	"gatewayd/gateway/provider"
	"gatewayd/gateway/slash"
	"gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

// shell is a terminal that asks, runs nothing and counts.
type shell struct{ ran *atomic.Int32 }

func (shell) Spec() provider.ToolSpec       { return provider.ToolSpec{Name: "terminal"} }
func (shell) ReadOnly(json.RawMessage) bool { return false }
func (shell) Permission() tool.Permission   { return tool.NeedsTerminal }
func (shell) Command(c tool.Call) string {
	var args struct{ Command string }
	_ = json.Unmarshal(c.Args, &args)
	return args.Command
}

func (s shell) Run(_ context.Context, c tool.Call) tool.Result {
	s.ran.Add(1)
	return tool.Result{Content: "ran " + s.Command(c) + "\n[exit 0]", Effect: tool.EffectDone}
}

// talking is the whole of a conversation without a daemon: a store, a model that is told what to say, the API, and the page.
type talking struct {
	*httptest.Server
	t     *testing.T
	store *sessiondb.Store
	model *fakellm.Server
	gate  chan struct{} // lets one piece of an answer through
	ran   atomic.Int32
	hold  atomic.Bool // answers wait for the gate
	lines atomic.Pointer[[]api.Check]

	mu   sync.Mutex
	made []string // what was changed over the API: METHOD PATH
}

func newTalking(t *testing.T) *talking {
	t.Helper()
	x := &talking{t: t, gate: make(chan struct{})}
	quiet := slog.New(slog.DiscardHandler)
	store, err := sessiondb.Open(t.Context(), sessiondb.Options{Path: filepath.Join(t.TempDir(), "state.db"), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	x.store, x.model = store, fakellm.Start(fakellm.Options{Each: x.answer})
	t.Cleanup(x.model.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	model := provider.New(provider.Options{BaseURL: x.model.URL(), Name: fakellm.Model, Transport: transport})
	approvals := gateway.NewApprovals(store, time.Minute, quiet)
	g := gateway.New(gateway.Options{
		Store: store, Model: model, Log: quiet, Sole: true, Grace: -1, Approvals: approvals, Tools: tool.NewSet(shell{&x.ran}), Terminal: tool.Ask,
	})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = g.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	stopping := make(chan struct{})
	x.lines.Store(&[]api.Check{{Name: "model", Status: "ok", Data: provider.StatsOf(model)}})
	checks := func(context.Context) []api.Check { return *x.lines.Load() }
	site := New(Options{Sessions: store, Approvals: approvals, Turns: g.Status, Checks: checks, Status: func(context.Context) any { return map[string]any{"gateway": g.Status()} }, Log: quiet, Version: "test"})
	handler := api.New(api.Options{
		Chat: g, Sessions: store, Commands: slash.New(slash.Options{Store: store, Gateway: g, Model: model.Describe, Approvals: approvals}), Approvals: approvals,
		Key: testKey, Addr: "127.0.0.1:0", Model: model.Describe, Log: quiet, Page: site, Stopping: stopping,
	})
	x.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			x.mu.Lock()
			x.made = append(x.made, r.Method+" "+r.URL.Path)
			x.mu.Unlock()
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { close(stopping); x.CloseClientConnections(); x.Close() })
	return x
}

// answer is a model that does as it is told: "clean" asks for a command, anything else is answered in words.
func (x *talking) answer(r fakellm.Request) fakellm.Response {
	var body struct {
		Messages []struct{ Role, Content string }
	}
	_ = json.Unmarshal(r.Body, &body)
	last := body.Messages[len(body.Messages)-1]
	answer := fakellm.Text{Text: "You said: " + last.Content, ChunkChars: 5}
	if last.Role == "tool" {
		answer.Text = strings.Repeat("It is clean now. ", 3)
	}
	if strings.HasPrefix(last.Content, "say ") {
		answer.Text = strings.TrimPrefix(last.Content, "say ")
	}
	if last.Role == "user" && strings.HasPrefix(last.Content, "clean") {
		return fakellm.ToolCall{Name: "terminal", Args: map[string]any{"command": "rm -rf build"}, Text: "I look first."}
	}
	if x.hold.Load() {
		answer.Gate = x.gate
	}
	return answer
}

// let lets so many pieces of an answer through.
func (x *talking) let(pieces int) {
	for range pieces {
		select {
		case x.gate <- struct{}{}:
		case <-time.After(20 * time.Second):
			x.t.Fatal("the model was not asked for the next piece")
		}
	}
}

// said are the requests that changed something, under a path.
func (x *talking) said(part string) (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, one := range x.made {
		if strings.Contains(one, part) {
			n++
		}
	}
	return n
}

// tab is a person's browser at this page.
type tab struct {
	context.Context
	x *talking
}

func (x *talking) open(path string) tab {
	x.t.Helper()
	return x.openAs(path, 0, 0, "light")
}

func (x *talking) openAs(path string, width, height int64, colours string) tab {
	x.t.Helper()
	b := tab{newTab(x.t, width, height, colours), x}
	b.do(chromedp.Navigate(x.URL + path))
	return b
}

func (b tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.x.t.Helper()
	if err := chromedp.Do(b, steps...); err != nil {
		b.x.t.Fatal(err)
	}
}

// until waits for an expression of the page to be true, over any reload.
func (b tab) until(expression string) {
	b.x.t.Helper()
	pageHas(b, b.x.t, expression)
}

func (b tab) eval(expression string) string {
	b.x.t.Helper()
	got, err := chromedp.Run(b, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		b.x.t.Fatal(err)
	}
	return got
}

// type_ types into the field of the message as a person does.
func (b tab) types(text string) {
	b.x.t.Helper()
	b.do(chromedp.Focus("#text"), chromedp.KeyEvent(text))
}

// text is an expression: what is shown in the conversation.
const shownText = `document.getElementById("rows").innerText`

func holds(text string) string { return fmt.Sprintf("%s.includes(%q)", shownText, text) }
