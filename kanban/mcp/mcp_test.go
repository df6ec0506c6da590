package mcp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"gatewayd/kanban"
	"gatewayd/kanban/worker/tools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// one is a root with one board.
type one struct {
	*kanban.Root
	board *kanban.Board
}

func (o one) Acquire(context.Context, kanban.Slug) (*kanban.Board, func(), error) {
	return o.board, func() {}, nil
}

// newDesk gives the desk of the worker of a running card.
func newDesk(t *testing.T) (tools.Desk, *kanban.Board) {
	t.Helper()
	root, err := kanban.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	board, err := kanban.Open(t.Context(), kanban.Options{Path: root.DBPath(kanban.DefaultSlug), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = board.Close() })
	card, err := board.Create(t.Context(), kanban.NewTask{Title: "work", Assignee: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	claim, err := board.Claim(t.Context(), card.ID, kanban.Claimer{Lock: kanban.ClaimLock(), TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	run := &kanban.Fence{Board: kanban.DefaultSlug, Task: card.ID, Run: claim.Run.ID}
	return tools.Desk{Boards: one{root, board}, Worker: run, ClaimTTL: time.Minute}, board
}

func line(id int, method, params string) string {
	b, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": json.RawMessage(params)})
	return string(b) + "\n"
}

const hello = `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`

// A client that writes all it wants to say and closes its side gets all its answers, and nothing else is written.
func TestCallsThatWereAskedBeforeTheEndAreAnswered(t *testing.T) {
	desk, board := newDesk(t)
	in := line(1, "initialize", hello) + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
		line(2, "tools/list", `{}`) +
		line(3, "tools/call", `{"name":"kanban_comment","arguments":{"body":"hm"}}`) +
		line(4, "tools/call", `{"name":"kanban_complete","arguments":{"summary":"done"}}`)
	var out strings.Builder
	if err := Serve(t.Context(), Options{Desk: desk, Version: "1"}, strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	answers := map[float64]map[string]any{}
	for text := range strings.Lines(out.String()) {
		var message map[string]any
		if err := json.Unmarshal([]byte(text), &message); err != nil || message["jsonrpc"] != "2.0" {
			t.Fatalf("not the protocol: %q", text)
		}
		answers[message["id"].(float64)] = message
	}
	if len(answers) != 4 {
		t.Errorf("%d answers:\n%s", len(answers), out.String())
	}
	if card, err := board.Task(t.Context(), desk.Worker.Task); err != nil || card.Status != kanban.StatusDone {
		t.Errorf("%+v %v", card, err)
	}
}

func TestTheStreamEndsWithItsInputOrItsContext(t *testing.T) {
	desk, _ := newDesk(t)
	if err := Serve(t.Context(), Options{Desk: desk}, strings.NewReader(""), io.Discard); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	defer writer.Close()
	ended := make(chan error)
	go func() { ended <- Serve(ctx, Options{Desk: desk}, reader, io.Discard) }()
	cancel()
	_ = reader.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// served is /mcp for the desk's run by the token "worker", and for a person by any other.
func served(t *testing.T, opts Options) *httptest.Server {
	t.Helper()
	run := opts.Desk.Worker
	opts.Desk.Worker, opts.Desk.Name = nil, "api"
	opts.Run = func(ctx context.Context) *kanban.Fence {
		if ctx.Value(http.LocalAddrContextKey) == nil || ctx.Value(tokenKey{}) != "worker" {
			return nil
		}
		return run
	}
	inner := Handler(opts)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tokenKey{}, r.Header.Get("Token"))))
	}))
	t.Cleanup(server.Close)
	return server
}

type tokenKey struct{}

type withToken struct{ token string }

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Token", w.token)
	return http.DefaultTransport.RoundTrip(r)
}

func client(t *testing.T, url, token string) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: withToken{token}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close(); http.DefaultClient.CloseIdleConnections() })
	return session
}

func says(t *testing.T, s *mcp.ClientSession, tool string, args map[string]any) (text string, failed bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	return r.Content[0].(*mcp.TextContent).Text, r.IsError
}

// Each request carries its own proof: one client's calls are never another's, and a restart of the server costs nothing.
func TestOverHTTPEachRequestIsItsOwnProof(t *testing.T) {
	desk, board := newDesk(t)
	server := served(t, Options{Desk: desk})
	worker, person := client(t, server.URL, "worker"), client(t, server.URL, "key")

	names := func(s *mcp.ClientSession) (names []string) {
		list, err := s.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
		}
		return names
	}
	if got := strings.Join(names(worker), " "); strings.Contains(got, "kanban_list") || !strings.Contains(got, "kanban_complete") {
		t.Errorf("a worker is offered %s", got)
	}
	if got := strings.Join(names(person), " "); !strings.Contains(got, "kanban_list") || !strings.Contains(got, "kanban_unblock") {
		t.Errorf("a person is offered %s", got)
	}
	for s, author := range map[*mcp.ClientSession]string{worker: `"author":"coder"`, person: `"author":"api"`} {
		if text, failed := says(t, s, "kanban_comment", map[string]any{"task_id": desk.Worker.Task, "body": "hm"}); failed || !strings.Contains(text, author) {
			t.Errorf("%s, want %s", text, author)
		}
	}
	if text, failed := says(t, person, "kanban_comment", map[string]any{"body": "hm"}); !failed || !strings.Contains(text, "task_id") {
		t.Errorf("a person has a card of its own: %s", text)
	}
	if text, failed := says(t, worker, "kanban_complete", map[string]any{"summary": "done"}); failed {
		t.Error(text)
	}
	if text, failed := says(t, worker, "kanban_comment", map[string]any{"body": "more"}); !failed || !strings.Contains(text, "no longer run") {
		t.Errorf("after its end: %s", text)
	}
	if card, err := board.Task(t.Context(), desk.Worker.Task); err != nil || card.Status != kanban.StatusDone {
		t.Errorf("%+v %v", card, err)
	}
}

// A client that is slow to finish its question holds one place; the one beyond the bound is told so at once.
func TestCallsUnderWayAreBounded(t *testing.T) {
	desk, _ := newDesk(t)
	server := served(t, Options{Desk: desk, MaxCalls: 1})
	body, slow := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if r, err := http.DefaultClient.Do(request); err == nil {
			_ = r.Body.Close()
		}
	}()
	if _, err := slow.Write([]byte(`{"jsonrpc":`)); err != nil { // the server reads it: the place is taken
		t.Fatal(err)
	}
	status := 0
	for status != http.StatusServiceUnavailable { // the bytes may be on their way still
		r, err := http.Post(server.URL, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		status = r.StatusCode
		_ = r.Body.Close()
	}
	_ = slow.CloseWithError(io.ErrUnexpectedEOF)
	<-ended
}
