package slash

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// house is a runner on a real gateway and a real store, with a scripted model server.
type house struct {
	*Runner
	t     *testing.T
	path  string
	store *sessiondb.Store
	g     *gateway.Gateway
	llm   *fakellm.Server
	stop  func()
	mu    sync.Mutex // guards reset
	reset []string
	ran   atomic.Int32 // commands that were let through
}

// terminal runs nothing and counts.
type terminal struct{ ran *atomic.Int32 }

func (terminal) Spec() provider.ToolSpec       { return provider.ToolSpec{Name: "terminal"} }
func (terminal) ReadOnly(json.RawMessage) bool { return false }
func (terminal) Permission() tool.Permission   { return tool.NeedsTerminal }
func (terminal) Command(call tool.Call) string {
	var args struct{ Command string }
	_ = json.Unmarshal(call.Args, &args)
	return args.Command
}

func (c terminal) Run(context.Context, tool.Call) tool.Result {
	c.ran.Add(1)
	return tool.Result{Content: "done", Effect: tool.EffectDone}
}

func newHouse(t *testing.T, script ...fakellm.Response) *house {
	t.Helper()
	h := &house{t: t, path: filepath.Join(t.TempDir(), "state.db"), llm: fakellm.New(t, script...)}
	h.start()
	return h
}

// start opens the store and serves; it is called again after stop.
func (h *house) start() {
	h.t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	store, err := sessiondb.Open(h.t.Context(), sessiondb.Options{Path: h.path, Log: quiet})
	if err != nil {
		h.t.Fatal(err)
	}
	h.store = store
	models := map[string]provider.Model{}
	for _, name := range []string{fakellm.Model, "other", "tiny"} {
		transport := newTransport(h.t)
		models[name] = provider.New(provider.Options{BaseURL: h.llm.URL(), Name: name, ContextLength: map[string]int{"other": 128_000, "tiny": 5}[name], Transport: transport})
	}
	find := func(name string) (provider.Model, error) {
		if model, known := models[name]; known {
			return model, nil
		}
		return nil, errName(name, "is no model")
	}
	approvals := gateway.NewApprovals(store, 50*time.Second, quiet)
	h.g = gateway.New(gateway.Options{
		Store: store, Model: models[fakellm.Model], Models: find, Log: quiet, Sole: true, Grace: -1,
		Approvals: approvals, Tools: tool.NewSet(terminal{&h.ran}), Terminal: tool.Ask,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = h.g.Run(ctx) })
	h.Runner = New(Options{
		Store: store, Gateway: h.g, Approvals: approvals, Model: models[fakellm.Model].Describe, Models: find, ResetBreaker: h.resets,
	})
	h.stop = sync.OnceFunc(func() { cancel(); running.Wait(); _ = store.Close() })
	h.t.Cleanup(h.stop)
}

func (h *house) say(session, text string) gateway.Result {
	h.t.Helper()
	r, err := h.g.Say(soon(h.t), gateway.Say{Session: session, Source: gateway.SourceAPI, Text: text}, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// run runs a command that must succeed.
func (h *house) run(session, line string) Reply {
	h.t.Helper()
	reply, ok, err := h.Run(soon(h.t), Context{Session: session, Source: gateway.SourceCLI}, line)
	if err != nil || !ok {
		h.t.Fatalf("%s: %v %v", line, ok, err)
	}
	return reply
}

// refused runs a command that must fail and gives its error.
func (h *house) refused(session, line string) error {
	h.t.Helper()
	_, _, err := h.Run(soon(h.t), Context{Session: session, Source: gateway.SourceCLI}, line)
	if err == nil {
		h.t.Errorf("%s was done", line)
		return fmt.Errorf("nothing")
	}
	return err
}

func (h *house) texts(session string) string {
	h.t.Helper()
	rows, err := h.store.Transcript(h.t.Context(), session)
	if err != nil {
		h.t.Fatal(err)
	}
	var out []string
	for _, row := range rows {
		out = append(out, row.Content)
	}
	return strings.Join(out, "|")
}

// wedged begins a turn that hangs until the test ends, and waits until the model was asked.
func (h *house) resets(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reset = append(h.reset, name)
}

func (h *house) wedged(session string) (ended <-chan gateway.Result) {
	h.t.Helper()
	out, asked := make(chan gateway.Result, 1), len(h.llm.Requests())
	h.llm.Push(fakellm.Hang{})
	go func() {
		r, _ := h.g.Say(context.Background(), gateway.Say{Session: session, Source: gateway.SourceAPI, Text: "hang"}, nil)
		out <- r
	}()
	if _, err := h.llm.Wait(soon(h.t), asked+1); err != nil {
		h.t.Fatal(err)
	}
	return out
}

func received[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-soon(t).Done():
		t.Fatal("nothing came")
		panic("unreachable")
	}
}
