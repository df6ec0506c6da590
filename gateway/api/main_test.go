package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
	"gatewayd/gateway/runs"
	"gatewayd/gateway/slash"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

func TestMain(m *testing.M) {
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if !tellUndescribed() {
		code = 1
	}
	os.Exit(code)
}

const testKey = "a-key-for-tests-only"

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// scripted is a Chat that does what a test says.
type scripted struct {
	say    func(ctx context.Context, say gateway.Say, sink func(gateway.Event)) (gateway.Result, error)
	status gateway.Status

	watch     func(ctx context.Context, session string, sink func(gateway.Event)) error
	interrupt func(session string, cause error) bool

	mu   sync.Mutex
	said []gateway.Say
}

func (s *scripted) Say(ctx context.Context, say gateway.Say, sink func(gateway.Event)) (gateway.Result, error) {
	s.mu.Lock()
	s.said = append(s.said, say)
	s.mu.Unlock()
	if s.say == nil {
		return answered("fine", sink), nil
	}
	return s.say(ctx, say, sink)
}

func (s *scripted) Status() gateway.Status { return s.status }

func (s *scripted) Post(_ context.Context, say gateway.Say) (gateway.Accepted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, say)
	return gateway.Accepted{Session: say.Session, UID: say.UID, Position: 1}, nil
}

func (s *scripted) Watch(ctx context.Context, session string, sink func(gateway.Event)) error {
	if s.watch == nil {
		<-ctx.Done()
		return nil
	}
	return s.watch(ctx, session, sink)
}

func (s *scripted) Attach(session string, sink func(gateway.Event)) func(context.Context) error {
	return func(ctx context.Context) error { return s.Watch(ctx, session, sink) }
}

func (s *scripted) Forget(session string, cause error) int {
	s.Interrupt(session, cause)
	return 0
}

func (s *scripted) Interrupt(session string, cause error) bool {
	return s.interrupt != nil && s.interrupt(session, cause)
}

func (s *scripted) last() gateway.Say {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said[len(s.said)-1]
}

// answered is a turn that ends well, streamed in two pieces.
func answered(text string, sink func(gateway.Event)) gateway.Result {
	half := len(text) / 2
	for _, piece := range []string{text[:half], text[half:]} {
		sink(gateway.Event{Kind: gateway.EventDelta, Text: piece})
	}
	return gateway.Result{
		Session: "s", TurnID: "turn_1", Text: text, FinishReason: "stop", ExitReason: "text_response", Completed: true, LastRow: 7,
		Usage: provider.Usage{Prompt: 10, Completion: 5, Cached: 4, Reasoning: 1},
	}
}

// noSessions has nothing stored.
type noSessions struct{ otherwise }

type otherwise = Sessions

func (noSessions) Session(_ context.Context, id string) (sessiondb.Session, error) {
	return sessiondb.Session{}, &problem.Error{Kind: problem.NotFound, Thing: "session " + id, What: "does not exist"}
}

func (noSessions) Sessions(context.Context, sessiondb.ListFilter) ([]sessiondb.Session, error) {
	return nil, nil
}

func (noSessions) Messages(context.Context, string, sessiondb.MessageFilter) ([]sessiondb.Message, error) {
	return nil, nil
}

func (noSessions) Resolve(_ context.Context, n sessiondb.NewSession) (sessiondb.Session, bool, error) {
	return sessiondb.Session{ID: "made", Key: n.Key}, true, nil
}

func (noSessions) SessionByKey(context.Context, string) (sessiondb.Session, error) {
	return sessiondb.Session{}, sessiondb.ErrSessionMissing
}

func (noSessions) CreateSession(_ context.Context, n sessiondb.NewSession) (sessiondb.Session, error) {
	return sessiondb.Session{ID: n.ID}, nil
}

func (noSessions) SetTitle(context.Context, string, string) error { return nil }

func (noSessions) Settings(context.Context, string) (sessiondb.Settings, error) {
	return sessiondb.Settings{}, nil
}

func (noSessions) Search(context.Context, sessiondb.Query) ([]sessiondb.Hit, error) { return nil, nil }

// plain gives a handler around a scripted chat.
func plain(change func(*Options)) (http.Handler, *scripted) {
	chat := &scripted{}
	opts := Options{Chat: chat, Sessions: noSessions{}, Key: testKey, Addr: "127.0.0.1:8642", PID: 42, Version: "test"}
	if change != nil {
		change(&opts)
	}
	return asDescribed(New(opts)), chat
}

// ask sends a request into a handler as an honest local client would.
func ask(h http.Handler, method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := newRequest(method, path, body)
	r.Header.Set("Authorization", "Bearer "+testKey)
	for _, c := range change {
		c(r)
	}
	return serve(h, r)
}

// newRequest is one without a key.
func newRequest(method, path, body string) *http.Request {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, "http://127.0.0.1:8642"+path, reader)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// decoded reads a JSON answer.
func decoded(t *testing.T, w *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("no JSON: %v: %s", err, w.Body)
	}
	return body
}

// refused checks that an answer is an error in the envelope and gives its inside.
func refused(t *testing.T, w *httptest.ResponseRecorder, status int, code string) map[string]any {
	t.Helper()
	inner, _ := decoded(t, w)["error"].(map[string]any)
	if w.Code != status || inner["code"] != code || inner["message"] == "" || inner["type"] == "" {
		t.Errorf("got %d %s; want %d with code %s", w.Code, w.Body, status, code)
	}
	if _, there := inner["param"]; !there || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		t.Errorf("not the envelope: %s", w.Body)
	}
	return inner
}

const hello = `{"model":"gpt-4o","messages":[{"role":"user","content":"hello"}]}`

// house is the real thing: a store, a gateway with a scripted model server, and a listening API.
type house struct {
	*httptest.Server
	store *sessiondb.Store
	llm   *fakellm.Server
	chat  Chat

	options Options
	handler *server
}

// outlast runs an actor until the test's end, and longer than those that are begun after it.
func outlast(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
}

func newHouse(t *testing.T, change func(*Options), script ...fakellm.Response) *house {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	store, err := sessiondb.Open(t.Context(), sessiondb.Options{Path: filepath.Join(t.TempDir(), "state.db"), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	llm := fakellm.New(t, script...)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	model := provider.New(provider.Options{BaseURL: llm.URL(), Name: fakellm.Model, Transport: transport})
	g := gateway.New(gateway.Options{Store: store, Model: model, Log: quiet, Sole: true, Grace: -1})
	desk := runs.New(runs.Options{Store: store, Chat: g, Most: 10, Log: quiet})
	outlast(t, desk.Run)
	outlast(t, g.Run)
	h := &house{store: store, llm: llm, chat: g, options: Options{
		Responses: store, Runs: desk,
		Chat: g, Sessions: store, Once: store, Commands: slash.New(slash.Options{Store: store, Gateway: g, Model: model.Describe}),
		Key: testKey, Addr: "127.0.0.1:0", Model: model.Describe, Log: quiet,
	}}
	if change != nil {
		change(&h.options)
	}
	return h.serve(t)
}

// serve opens the house behind a new handler.
func (h *house) serve(t *testing.T) *house {
	t.Helper()
	next := *h
	next.handler = newServer(h.options)
	next.Server = httptest.NewServer(asDescribed(next.handler.router()))
	t.Cleanup(next.Server.Close)
	return &next
}

// send posts a chat over a real socket.
func (h *house) send(t *testing.T, ctx context.Context, body string, change ...func(*http.Request)) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testKey)
	r.Header.Set("Content-Type", "application/json")
	for _, c := range change {
		c(r)
	}
	response, err := h.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func (h *house) rows(t *testing.T, session string) string {
	t.Helper()
	rows, err := h.store.Messages(t.Context(), session, sessiondb.MessageFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&b, "%s:%s|", row.Role, row.Content)
	}
	return b.String()
}
