package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gatewayd/gateway"
	"gatewayd/gateway/api"
	"gatewayd/gateway/provider"
	"gatewayd/gateway/slash"
	"gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// liner is a front end that speaks lines with a real API, gateway and store, and a scripted model.
type liner struct {
	t      *testing.T
	store  *sessiondb.Store
	llm    *fakellm.Server
	server *httptest.Server
	in     *io.PipeWriter
	frames *io.PipeReader
	out    chan []byte
	seen   []map[string]any
	ended  chan error
	asked  chan os.Signal
}

func newLiner(t *testing.T, script ...fakellm.Response) *liner {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	store, err := sessiondb.Open(t.Context(), sessiondb.Options{Path: filepath.Join(t.TempDir(), "state.db"), Log: quiet})
	need(t, err)
	llm := fakellm.New(t, script...)
	model := provider.New(provider.Options{BaseURL: llm.URL(), Name: fakellm.Model, Transport: &http.Transport{DisableKeepAlives: true}})
	approvals := gateway.NewApprovals(store, 50*time.Second, quiet)
	g := gateway.New(gateway.Options{
		Store: store, Model: model, Log: quiet, Sole: true, Grace: -1, Approvals: approvals, Tools: tool.NewSet(noTerminal{}), Terminal: tool.Ask,
	})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = g.Run(ctx) })
	server := httptest.NewServer(api.New(api.Options{
		Chat: g, Sessions: store, Approvals: approvals,
		Commands: slash.New(slash.Options{Store: store, Gateway: g, Approvals: approvals, Model: model.Describe}), Key: "k-for-tests", Addr: "127.0.0.1:0", Log: quiet,
	}))
	t.Cleanup(func() { stop(); running.Wait(); server.Close(); _ = store.Close() })
	in, lines := io.Pipe()
	frames, out := io.Pipe()
	l := &liner{t: t, store: store, llm: llm, server: server, in: lines, frames: frames, out: make(chan []byte, 10_000), ended: make(chan error, 1), asked: make(chan os.Signal, 1)}
	go func() {
		defer close(l.out)
		for s := bufio.NewScanner(frames); s.Scan(); {
			l.out <- slices.Clone(s.Bytes())
		}
	}()
	go func() {
		err := newFront(newClient(server.URL, "k-for-tests"), out, "").speak(context.Background(), in, l.asked)
		_ = out.Close()
		l.ended <- err
	}()
	t.Cleanup(func() { _ = lines.Close(); _ = frames.Close() })
	if ready := l.next(); ready["method"] != "gateway.ready" {
		t.Fatalf("the first frame is %v", ready)
	}
	return l
}

// noTerminal runs nothing, once it is let.
type noTerminal struct{}

func (noTerminal) Spec() provider.ToolSpec       { return provider.ToolSpec{Name: "terminal"} }
func (noTerminal) ReadOnly(json.RawMessage) bool { return false }
func (noTerminal) Permission() tool.Permission   { return tool.NeedsTerminal }
func (noTerminal) Command(call tool.Call) string {
	var args struct{ Command string }
	_ = json.Unmarshal(call.Args, &args)
	return args.Command
}

func (noTerminal) Run(context.Context, tool.Call) tool.Result {
	return tool.Result{Content: "it was run", Effect: tool.EffectDone}
}

func (l *liner) send(format string, args ...any) {
	l.t.Helper()
	if _, err := fmt.Fprintf(l.in, format+"\n", args...); err != nil {
		l.t.Fatal(err)
	}
}

// next gives the next frame, each of which must be one JSON object.
func (l *liner) next() map[string]any {
	l.t.Helper()
	var frame map[string]any
	select {
	case line, more := <-l.out:
		if err := json.Unmarshal(line, &frame); err != nil {
			l.t.Fatalf("no frame (more: %v): %v: %.200s; there were %v", more, err, line, l.seen)
		}
	case <-time.After(40 * time.Second):
		l.t.Fatalf("no more frames; there were %v", l.seen)
	}
	l.seen = append(l.seen, frame)
	return frame
}

// until reads to the first frame that is wanted.
func (l *liner) until(wanted func(frame map[string]any) bool) map[string]any {
	l.t.Helper()
	for {
		if frame := l.next(); wanted(frame) {
			return frame
		}
	}
}

func answerTo(id int) func(map[string]any) bool {
	return func(f map[string]any) bool { return f["id"] == float64(id) }
}

func notification(name string) func(map[string]any) bool {
	return func(f map[string]any) bool { return f["method"] == name }
}

// field walks into a frame.
func field(frame any, path ...string) any {
	for _, name := range path {
		inner, _ := frame.(map[string]any)
		frame = inner[name]
	}
	return frame
}

func (l *liner) rows(session string) string {
	l.t.Helper()
	rows, err := l.store.Transcript(l.t.Context(), session)
	need(l.t, err)
	var out []string
	for _, row := range rows {
		out = append(out, row.Role+":"+row.Content)
	}
	return strings.Join(out, "|")
}

func (l *liner) end() error {
	l.t.Helper()
	select {
	case err := <-l.ended:
		return err
	case <-time.After(40 * time.Second):
		l.t.Fatal("it does not end")
		return nil
	}
}

func TestAPromptIsAcceptedStreamedAndCompleted(t *testing.T) {
	l := newLiner(t, fakellm.Text{Text: "good morning", Reasoning: "hm"})
	l.send(`{"jsonrpc":"2.0","id":1,"method":"session.create","params":{"title":"garden"}}`)
	session := field(l.until(answerTo(1)), "result", "session")
	l.send(`{"jsonrpc":"2.0","id":2,"method":"prompt.submit","params":{"text":"hello"}}`)
	if got := l.until(answerTo(2)); field(got, "result", "accepted") != true || field(got, "result", "session") != session {
		t.Fatalf("got %v", got)
	}
	said := ""
	for {
		f := l.next()
		if f["method"] == "message.delta" {
			said += fmt.Sprint(field(f, "params", "text"))
		}
		if f["method"] == "message.complete" {
			if said != "good morning" || field(f, "params", "text") != said || field(f, "params", "completed") != true || field(f, "params", "prompt") != float64(2) {
				t.Errorf("said %q: %v", said, f)
			}
			break
		}
	}
	if info := l.next(); info["method"] != "session.info" || field(info, "params", "running") != false {
		t.Errorf("after it: %v", info)
	}
	l.send(`{"id":3,"method":"session.resume","params":{"session":"gard"}}`)
	if got := l.until(answerTo(3)); field(got, "result", "session") != session || field(got, "result", "messages") != float64(2) {
		t.Errorf("got %v", got)
	}
}

// While a turn is wedged, lines are answered; a second prompt has an error of its own; the turn can be stopped.
func TestLinesAreAnsweredBesideAWedgedTurn(t *testing.T) {
	l := newLiner(t, fakellm.Hang{})
	l.send(`{"id":1,"method":"prompt.submit","params":{"text":"hello","session":"s1"}}`)
	l.until(answerTo(1))
	begin := time.Now()
	l.send(`{"id":2,"method":"ping"}`)
	l.send(`{"id":3,"method":"session.status","params":{"session":"s1"}}`)
	l.send(`{"id":4,"method":"prompt.submit","params":{"text":"more","session":"s1"}}`)
	l.send(`{"id":5,"method":"command","params":{"line":"/undo","session":"s1"}}`)
	answers := map[float64]map[string]any{}
	for len(answers) < 4 {
		if f := l.next(); f["id"] != nil {
			answers[f["id"].(float64)] = f
		}
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
	if field(answers[2], "result", "pong") != true || field(answers[3], "result", "running") != true {
		t.Errorf("got %v %v", answers[2], answers[3])
	}
	if field(answers[4], "error", "code") != float64(codeTurnRuns) || field(answers[5], "error", "code") != float64(codeConflict) {
		t.Errorf("got %v %v", answers[4], answers[5])
	}
	l.send(`{"id":6,"method":"session.interrupt","params":{"session":"s1"}}`)
	done := l.until(notification("message.complete"))
	if field(done, "params", "interrupted") != true || strings.Contains(l.rows("s1"), "more") {
		t.Errorf("got %v; %s", done, l.rows("s1"))
	}
}

// The front end goes in the middle of a turn: the turn's rows are closed before the program ends.
func TestTheEndOfInputClosesTheTurnsThatWereBegun(t *testing.T) {
	for name, leave := range map[string]func(*liner){
		"end of input": func(l *liner) { _ = l.in.Close() },
		"signal":       func(l *liner) { l.asked <- os.Interrupt },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLiner(t, fakellm.Hang{})
			l.send(`{"id":1,"method":"prompt.submit","params":{"text":"hello","session":"s1"}}`)
			l.until(answerTo(1))
			if _, err := l.llm.Wait(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			leave(l)
			if err := l.end(); err != nil {
				t.Errorf("it ended with %v", err)
			}
			if got := l.rows("s1"); !strings.HasPrefix(got, "user:hello|assistant:") {
				t.Errorf("the turn is left open: %s", got)
			}
		})
	}
}

func TestTheDaemonsEndInATurnIsAFrameAndAnExitCode(t *testing.T) {
	l := newLiner(t, fakellm.Hang{})
	l.send(`{"id":1,"method":"prompt.submit","params":{"text":"hello","session":"s1"}}`)
	l.until(answerTo(1))
	l.server.CloseClientConnections()
	lost := l.until(notification("error"))
	if field(lost, "params", "code") != float64(codeDaemonGone) || field(lost, "params", "session") != "s1" {
		t.Errorf("got %v", lost)
	}
	err := l.end()
	if exitCode(err) != exitNotRunning || !errors.Is(err, errSaid) || !problem.Is(err, problem.NotRunning) {
		t.Errorf("it ended with %v, code %d", err, exitCode(err))
	}
}

func TestALineThatIsNoRequestIsAnErrorAndNoEnd(t *testing.T) {
	l := newLiner(t)
	for line, code := range map[string]int{
		"no json": codeBadJSON, "[1]": codeInvalidRequest, `{"id":1}`: codeInvalidRequest, `{"id":1,"method":"nope"}`: codeUnknownMethod,
		`{"id":1,"method":"prompt.submit"}`: codeInvalidParams, `{"id":1,"method":"prompt.submit","params":{"text":7}}`: codeInvalidParams,
		`{"id":1,"method":"prompt.submit","params":[]}`: codeInvalidParams, `{"id":1,"method":"command","params":{"line":"/frobnicate"}}`: codeInvalidParams,
		`{"id":1,"method":"session.resume","params":{"session":"nobody"}}`: codeNotFound, strings.Repeat("x", maxFrame+1): codeInvalidRequest,
	} {
		l.send("%s", line)
		if got := l.next(); field(got, "error", "code") != float64(code) || field(got, "error", "message") == "" {
			t.Errorf("%.60s: %v, want %d", line, got, code)
		}
	}
	l.send(`{"id":2,"method":"ping"}`)
	if got := l.next(); field(got, "result", "pong") != true {
		t.Errorf("got %v", got)
	}
}

// A command over lines answers in one frame; one that says something has its turn's frames after it; /new moves on.
func TestCommandsOverLines(t *testing.T) {
	l := newLiner(t, fakellm.Text{Text: "1"}, fakellm.Text{Text: "2"})
	l.send(`{"id":1,"method":"prompt.submit","params":{"text":"hello","session":"s1"}}`)
	l.until(notification("message.complete"))
	l.send(`{"id":2,"method":"command","params":{"line":"retry","session":"s1"}}`)
	if got := l.until(answerTo(2)); field(got, "result", "turn") != true {
		t.Errorf("got %v", got)
	}
	l.until(notification("message.complete"))
	if got := l.rows("s1"); got != "user:hello|assistant:2" {
		t.Errorf("got %s", got)
	}
	l.send(`{"id":3,"method":"prompt.submit","params":{"text":"/new","session":"s1"}}`)
	next := field(l.until(answerTo(3)), "result", "session")
	l.send(`{"id":4,"method":"session.status"}`)
	if got := l.until(answerTo(4)); next == "s1" || field(got, "result", "session") != next {
		t.Errorf("it is in %v after %v", got, next)
	}
}

func TestWhatAToolAsksIsAnsweredOverLines(t *testing.T) {
	l := newLiner(t, fakellm.ToolCall{Name: "terminal", Args: `{"command":"rm -rf build"}`}, fakellm.Text{Text: "so be it"})
	l.send(`{"id":1,"method":"prompt.submit","params":{"text":"install it","session":"s1"}}`)
	asked := l.until(notification("approval.request"))
	id := field(asked, "params", "approval", "id")
	l.send(`{"id":2,"method":"approval.list"}`)
	if got := l.until(answerTo(2)); !strings.Contains(fmt.Sprint(field(got, "result", "approvals")), fmt.Sprint(id)) {
		t.Errorf("got %v", got)
	}
	l.send(`{"id":3,"method":"approval.respond","params":{"id":%q,"decision":"once"}}`, id)
	l.until(notification("message.complete")) // the answer to 3 may come before the tool's end or after it
	done := slices.IndexFunc(l.seen, notification("tool.completed"))
	if done < 0 || field(l.seen[done], "params", "text") != "it was run" || field(l.seen[done], "params", "failed") != false {
		t.Errorf("got %v", l.seen)
	}
	l.send(`{"id":4,"method":"approval.respond","params":{"id":%q,"decision":"deny"}}`, id)
	if got := l.until(answerTo(4)); field(got, "error", "code") != float64(codeConflict) {
		t.Errorf("decided twice: %v", got)
	}
}

// A person at a terminal answers in the same place, and other lines wait for the turn's end.
func TestWhatAToolAsksIsAnsweredInTheTerminal(t *testing.T) {
	l := newLiner(t, fakellm.ToolCall{Name: "terminal", Args: `{"command":"rm -rf build"}`}, fakellm.Text{Text: "so be it"})
	typed := make(chan string, 3)
	typed <- "and then?"
	typed <- "/status"
	var out, errs bytes.Buffer
	asks := &onWrite{to: &errs, words: "y, session, always or n?", then: func() { typed <- "y" }}
	person := &talk{client: newClient(l.server.URL, "k-for-tests"), out: &out, prose: &wrapped{out: &out}, err: asks, session: "s1", lines: typed}
	if err := person.say(t.Context(), "install it"); err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	if out.String() != "so be it\n" || !strings.Contains(errs.String(), "terminal asks]") || !strings.Contains(errs.String(), "terminal completed") || !strings.Contains(errs.String(), "turn       ") {
		t.Errorf("%q; %s", out.String(), errs.String())
	}
	if next, more := person.next(); next != "and then?" || !more {
		t.Errorf("next is %q", next)
	}
}

// onWrite does something once certain words were written.
type onWrite struct {
	to    io.Writer
	words string
	then  func()
}

func (w *onWrite) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.words) {
		w.then()
	}
	return w.to.Write(p)
}

// docs/chat.md is what front ends are written by: it has each method, notification, code and command, and no other.
func TestTheLineProtocolIsTheDocumentedOne(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "chat.md"))
	need(t, err)
	text := string(raw)
	section := func(title string) string {
		_, rest, found := strings.Cut(text, "\n"+title+"\n")
		if !found {
			t.Fatalf("no section %q", title)
		}
		if i := strings.Index(rest, "\n#"); i >= 0 {
			rest = rest[:i]
		}
		return rest
	}
	first := func(title string) (cells []string) {
		for line := range strings.Lines(section(title)) {
			cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
			if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "|--") {
				cells = append(cells, strings.Trim(cell, "`"))
			}
		}
		slices.Sort(cells[1:])
		return cells[1:] // below the heading
	}
	same := func(what string, documented, real []string) {
		t.Helper()
		slices.Sort(real)
		if !slices.Equal(documented, real) {
			t.Errorf("%s: documented %v, real %v", what, documented, real)
		}
	}
	same("methods", first("### Methods"), methodNames())
	sent := []string{"gateway.ready", "session.info", "message.complete", "error"}
	for _, name := range frameOf {
		sent = append(sent, name)
	}
	same("notifications", first("### Notifications"), sent)
	codes := []string{}
	for _, code := range []int{codeBadJSON, codeInvalidRequest, codeUnknownMethod, codeInvalidParams, codeInternal, codeDenied, codeNotFound, codeTurnRuns, codeConflict, codeTooMany, codeUnavailable, codeDaemonGone} {
		codes = append(codes, strconv.Itoa(code))
	}
	same("codes", first("### Errors"), codes)
	for _, c := range slash.Commands() {
		if !strings.Contains(section("## Commands"), "| `/"+c.Name) {
			t.Errorf("/%s is not documented", c.Name)
		}
	}
	_, example, _ := strings.Cut(section("## Lines of JSON"), "```json\n")
	example, _, _ = strings.Cut(example, "```")
	for line := range strings.Lines(example) {
		if !json.Valid([]byte(line)) {
			t.Errorf("the example is no JSON: %s", line)
		}
	}
}
