package gateway

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
	"gatewayd/reaper"
	"gatewayd/sessiondb"
)

// daemonRole makes the test binary a gateway that lives like the daemon does: it recovers, runs, and accepts a message for each line
// it reads. It ends in order when there are no more lines.
const daemonRole = "daemon"

func childDaemon(dir, url string) int {
	if err := runDaemon(dir, url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runDaemon(dir, url string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store, err := sessiondb.Open(ctx, sessiondb.Options{Path: filepath.Join(dir, "state.db")})
	if err != nil {
		return err
	}
	defer store.Close()
	r, err := reaper.New(reaper.Options{Dir: filepath.Join(dir, "records"), Spares: -1})
	if err != nil {
		return err
	}
	go func() { _ = r.Run(context.Background()) }()
	g := New(Options{
		Store: store, Model: provider.New(provider.Options{BaseURL: url, Name: fakellm.Model}), Sole: true, Terminal: tool.Allow, Log: quiet(),
		Grace: 30 * time.Second, // an answer that was sent may not be stored yet when the end is asked for
		Tools: tool.NewSet(tool.NewTerminal(tool.TerminalOptions{Reaper: r, Dir: dir}), tool.ReadFile{Dir: dir}),
	})
	found, err := g.Recover(ctx)
	if err != nil {
		return err
	}
	decisions := []string{"ready"}
	for _, one := range found {
		decisions = append(decisions, one.Decision)
	}
	fmt.Println(strings.Join(decisions, " "))
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		accepted, err := g.Post(ctx, Say{Session: "s1", Source: SourceCLI, Text: lines.Text(), Detached: true})
		if err != nil {
			return err
		}
		fmt.Printf("accepted %s\n", accepted.UID)
	}
	stop()
	return <-ended
}

// startDaemon starts the child and gives what it said of the life before.
func startDaemon(t *testing.T, dir, url string) (*child, string) {
	t.Helper()
	c := startAs(t, daemonRole, os.Stderr, dir, url)
	said, ok := c.Line()
	if !ok {
		t.Fatal("the daemon did not start")
	}
	return c, strings.TrimSpace(strings.TrimPrefix(said, "ready"))
}

// post says a message and waits until it is accepted.
func (c *child) post(text string) {
	c.t.Helper()
	c.Say(text)
	if said, ok := c.Line(); !ok || !strings.HasPrefix(said, "accepted ") {
		c.t.Fatalf("%q was not accepted: %q", text, said)
	}
}

// leave ends the daemon in order.
func (c *child) leave() {
	c.t.Helper()
	if err := c.End(); err != nil {
		c.t.Errorf("the daemon's end: %v", err)
	}
}

// rowsIn reads a session of a store that nobody else has open.
func rowsIn(t *testing.T, dir string) []sessiondb.Message {
	t.Helper()
	store, err := sessiondb.Open(t.Context(), sessiondb.Options{Path: filepath.Join(dir, "state.db"), Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	return rowsOf(t, store, "s1")
}

func wait(t *testing.T, llm *fakellm.Server, n int) []fakellm.Request {
	t.Helper()
	requests, err := llm.Wait(soon(t), n)
	if err != nil {
		t.Fatal(err)
	}
	return requests
}

func TestADetachedTurnThatWasKilledGoesOnFromItsRows(t *testing.T) {
	dir := t.TempDir()
	path, fifo := makeFIFO(t, dir)
	answered := make(chan int, 8)
	llm := fakellm.New(t, fakellm.ToolCall{Name: "terminal", Text: "running it", Args: map[string]any{"command": "echo $$ > " + path + "; exec sleep 600"}},
		fakellm.Text{Text: "it is done", Sent: func(n int) { answered <- n }})
	c, _ := startDaemon(t, dir, llm.URL())
	c.post("do it")
	pid := readPID(t, fifo)
	c.Kill()
	c, decided := startDaemon(t, dir, llm.URL())
	if decided != DecisionResumed {
		t.Fatalf("decided %q", decided)
	}
	if _, gone := os.Stat("/proc/" + pid); gone == nil {
		t.Errorf("process %s of the interrupted command outlived the recovery", pid)
	}
	requests := wait(t, llm, 2)
	<-answered
	c.leave()
	rows := rowsIn(t, dir)
	if got := shape(rows); got != "user assistant+1 tool/repair user/resumed assistant" || rows[4].Content != "it is done" || rows[2].Content != unknownEffect {
		t.Fatalf("%s: %q", got, rows[len(rows)-1].Content)
	}
	for _, row := range rows {
		if row.TurnID != rows[0].TurnID {
			t.Errorf("row %d is of another turn", row.ID)
		}
	}
	before, after := sentMessages(t, requests[0]), sentMessages(t, requests[1])
	for i := range before {
		if string(before[i]) != string(after[i]) {
			t.Errorf("message %d was %s, is now %s", i, before[i], after[i])
		}
	}
	if last := string(after[len(after)-1]); !strings.Contains(last, "gatewayd was restarted") {
		t.Errorf("the model was not told: %s", last)
	}
	c, decided = startDaemon(t, dir, llm.URL())
	if decided != "" {
		t.Errorf("a turn that ended was found again: %s", decided)
	}
	c.leave()
}

func TestADetachedTurnThatEndsItsProcessIsGivenUp(t *testing.T) {
	dir := t.TempDir()
	llm := fakellm.Start(fakellm.Options{Each: func(fakellm.Request) fakellm.Response { return fakellm.Hang{} }})
	t.Cleanup(llm.Close)
	c, _ := startDaemon(t, dir, llm.URL())
	c.post("poison")
	for n := 1; n <= DefaultResume+1; n++ {
		wait(t, llm, n)
		c.Kill()
		decided, want := "", DecisionResumed
		if c, decided = startDaemon(t, dir, llm.URL()); n > DefaultResume {
			want = DecisionSuspended
		}
		if decided != want {
			t.Fatalf("after %d processes: %q, want %q", n, decided, want)
		}
	}
	c.leave()
	rows := rowsIn(t, dir)
	last := rows[len(rows)-1]
	if last.Kind != kindClosing || !strings.Contains(last.Content, "3 processes have ended") || len(llm.Requests()) != DefaultResume+1 {
		t.Errorf("%s after %d requests: %q", shape(rows), len(llm.Requests()), last.Content)
	}
	assertWhole(t, rows)
}

func TestAcceptedMessagesSurviveAKillAndAreSaidOnceInOrder(t *testing.T) {
	dir := t.TempDir()
	llm := fakellm.Start(fakellm.Options{Script: []fakellm.Response{fakellm.Hang{}}, Each: func(r fakellm.Request) fakellm.Response {
		return fakellm.Text{Text: fmt.Sprintf("answer %d", r.N)}
	}})
	t.Cleanup(llm.Close)
	c, _ := startDaemon(t, dir, llm.URL())
	c.post("one")
	wait(t, llm, 1)
	for _, text := range []string{"two", "three", "four"} {
		c.post(text)
	}
	c.Kill()
	c, decided := startDaemon(t, dir, llm.URL())
	if decided != DecisionResumed {
		t.Fatalf("decided %q", decided)
	}
	wait(t, llm, 5)
	c.post("five")
	wait(t, llm, 6)
	c.leave()
	c, _ = startDaemon(t, dir, llm.URL()) // what the stop cut off goes on
	wait(t, llm, 6)
	c.leave()
	var said []string
	for _, row := range rowsIn(t, dir) {
		if row.Role == roleUser && row.Kind == "" {
			said = append(said, row.Content)
		}
	}
	if got := strings.Join(said, " "); got != "one two three four five" {
		t.Errorf("said: %s", got)
	}
}
