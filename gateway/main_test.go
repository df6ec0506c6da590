package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
	"gatewayd/reaper"
	"gatewayd/sessiondb"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	reaper.Main()
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(childMain(role))
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// soon bounds a test that waits.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func openStore(t *testing.T, path string) *sessiondb.Store {
	t.Helper()
	store, err := sessiondb.Open(t.Context(), storeOptions(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// storeOptions leave a file in the journal mode that it has: byte 18 of its header is 1 in rollback mode. Left to itself, an open takes it
// to WAL.
func storeOptions(path string) sessiondb.Options {
	opts := sessiondb.Options{Path: path, Log: quiet()}
	if header, err := os.ReadFile(path); err == nil && len(header) > 18 && header[18] == 1 {
		opts.Journal.Mode = "delete"
	}
	return opts
}

// house is one gateway with a real store and a scripted model.
type house struct {
	*Gateway
	t     *testing.T
	path  string
	store *sessiondb.Store
	spy   *spy
	llm   *fakellm.Server
	stop  func()
}

// newHouse starts a gateway. change may alter the options.
func newHouse(t *testing.T, change func(*Options), script ...fakellm.Response) *house {
	t.Helper()
	h := &house{t: t, path: filepath.Join(t.TempDir(), "state.db"), llm: fakellm.New(t, script...)}
	h.start(change)
	return h
}

func (h *house) start(change func(*Options)) {
	h.t.Helper()
	h.store = openStore(h.t, h.path)
	h.spy = &spy{Store: h.store}
	opts := Options{Store: h.spy, Model: model(h.llm), Log: quiet(), Sole: true, Terminal: tool.Allow, Grace: -1}
	if change != nil {
		change(&opts)
	}
	h.Gateway = New(opts)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = h.Run(ctx) }()
	h.stop = sync.OnceFunc(func() { cancel(); <-done })
	h.t.Cleanup(h.stop)
}

// restart ends the gateway and its store and starts both anew on the same file.
func (h *house) restart(change func(*Options)) {
	h.t.Helper()
	h.stop()
	if err := h.store.Close(); err != nil {
		h.t.Fatal(err)
	}
	h.start(change)
}

func model(llm *fakellm.Server) provider.Model {
	return provider.New(provider.Options{
		BaseURL: llm.URL(), Name: fakellm.Model, Transport: nil, FirstToken: 30 * time.Second, Stall: 30 * time.Second, RequestTimeout: time.Minute,
	})
}

func (h *house) say(say Say) Result {
	h.t.Helper()
	if say.Source == "" {
		say.Source = SourceAPI
	}
	if say.Session == "" && say.Key == "" {
		say.Session = "s1"
	}
	r, err := h.Say(soon(h.t), say, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	h.proves(r)
	return r
}

func (h *house) rows(session string) []sessiondb.Message {
	h.t.Helper()
	return rowsOf(h.t, h.store, session)
}

func rowsOf(t *testing.T, store *sessiondb.Store, session string) []sessiondb.Message {
	t.Helper()
	rows, err := store.Transcript(context.Background(), session)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// shape is a transcript in one line: roles, and what tells rows apart.
func shape(rows []sessiondb.Message) string {
	var parts []string
	for _, row := range rows {
		part := row.Role
		if n := len(storedCalls(row)); n > 0 {
			part += fmt.Sprintf("+%d", n)
		}
		if row.Kind != "" {
			part += "/" + row.Kind
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

// assertWhole checks what must hold for every transcript after a turn: roles alternate, and each call has one result.
func assertWhole(t *testing.T, rows []sessiondb.Message) {
	t.Helper()
	last := ""
	for i, row := range rows {
		if row.Role == roleTool {
			continue
		}
		if row.Role == last && (row.Role == roleUser || len(storedCalls(rows[i-1])) == 0 && rows[i-1].Role == roleAssistant) {
			t.Errorf("two %s rows in a row: %s", row.Role, shape(rows))
		}
		last = row.Role
		answers := map[string]int{}
		for _, r := range rows[i+1:] {
			if r.Role != roleTool {
				break
			}
			answers[r.ToolCallID]++
		}
		for _, call := range storedCalls(row) {
			if answers[call.ID] != 1 {
				t.Errorf("call %s has %d results: %s", call.ID, answers[call.ID], shape(rows))
			}
		}
	}
	if n := len(rows); n > 0 && rows[n-1].Role != roleAssistant {
		t.Errorf("the transcript does not end with an assistant row: %s", shape(rows))
	}
}

// spy is the real store; it records the order of writes and lets a test break one.
type spy struct {
	*sessiondb.Store
	mu     sync.Mutex
	log    []string
	refuse func(rows []sessiondb.NewMessage) error // before an append; an error is returned instead of writing
	after  func(rows []sessiondb.Message)          // after an append
	renew  func() error
	repair func() error // before a repair
}

func (s *spy) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *spy) events() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.log...)
}

func (s *spy) Append(ctx context.Context, l sessiondb.Lease, rows []sessiondb.NewMessage) ([]sessiondb.Message, error) {
	return s.around(rows, func() ([]sessiondb.Message, error) { return s.Store.Append(ctx, l, rows) })
}

func (s *spy) Begin(ctx context.Context, l sessiondb.Lease, p sessiondb.Pending, rows []sessiondb.NewMessage) ([]sessiondb.Message, error) {
	return s.around(rows, func() ([]sessiondb.Message, error) { return s.Store.Begin(ctx, l, p, rows) })
}

func (s *spy) End(ctx context.Context, l sessiondb.Lease, turn string, rows []sessiondb.NewMessage) ([]sessiondb.Message, error) {
	return s.around(rows, func() ([]sessiondb.Message, error) { return s.Store.End(ctx, l, turn, rows) })
}

func (s *spy) AddUsage(ctx context.Context, d sessiondb.UsageDelta) error {
	err := s.Store.AddUsage(ctx, d)
	s.note("counted %d", d.Prompt)
	return err
}

// around notes what a write stores, and breaks it where a test wants that.
func (s *spy) around(rows []sessiondb.NewMessage, write func() ([]sessiondb.Message, error)) ([]sessiondb.Message, error) {
	if s.refuse != nil {
		if err := s.refuse(rows); err != nil {
			return nil, err
		}
	}
	stored, err := write()
	for _, row := range stored {
		s.note("stored %s", shape([]sessiondb.Message{row}))
	}
	if s.after != nil {
		s.after(stored)
	}
	return stored, err
}

func (s *spy) Repair(ctx context.Context, l sessiondb.Lease, repairs []sessiondb.RowRepair) error {
	if s.repair != nil {
		if err := s.repair(); err != nil {
			return err
		}
	}
	return s.Store.Repair(ctx, l, repairs)
}

func (s *spy) Renew(ctx context.Context, l sessiondb.Lease) (sessiondb.Lease, error) {
	if s.renew != nil {
		if err := s.renew(); err != nil {
			return l, err
		}
	}
	return s.Store.Renew(ctx, l)
}

// fake is a tool under the test's control.
type fake struct {
	name     string
	readOnly bool
	run      func(ctx context.Context, call tool.Call) tool.Result
}

func (f fake) Spec() provider.ToolSpec {
	return provider.ToolSpec{Name: f.name, Description: "test", Parameters: json.RawMessage(`{"type":"object"}`)}
}
func (f fake) ReadOnly(json.RawMessage) bool { return f.readOnly }
func (f fake) Permission() tool.Permission   { return tool.NeedsTerminal }
func (f fake) Run(ctx context.Context, call tool.Call) tool.Result {
	return f.run(ctx, call)
}

// echo answers with its arguments.
func echo(name string) fake {
	return fake{name: name, run: func(_ context.Context, call tool.Call) tool.Result {
		return tool.Result{Content: "echo " + string(call.Args), Effect: tool.EffectDone}
	}}
}

func tools(list ...tool.Tool) *tool.Set { return tool.NewSet(list...) }

func with(list ...tool.Tool) func(*Options) {
	return func(o *Options) { o.Tools = tools(list...) }
}

// sentMessages reads the messages of a recorded request.
func sentMessages(t *testing.T, r fakellm.Request) []json.RawMessage {
	t.Helper()
	var body struct{ Messages []json.RawMessage }
	if err := json.Unmarshal(r.Body, &body); err != nil {
		t.Fatal(err)
	}
	return body.Messages
}

// proves asks the rows for the receipt of a turn that was told of.
func (h *house) proves(r Result) {
	h.t.Helper()
	if r.Digest == "" {
		if r.Completed && r.LastRow > 0 {
			h.t.Errorf("an answer without a receipt: %+v", r)
		}
		return
	}
	p, err := h.store.Check(h.t.Context(), sessiondb.Receipt{Session: r.Session, Turn: r.TurnID, Row: r.LastRow, Digest: r.Digest})
	if err != nil || !p.Proven {
		h.t.Errorf("the receipt is not proved: %+v %v", p, err)
	}
}
