package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/peer"
	"gatewayd/internal/vigil"
	"gatewayd/reaper"
	"gatewayd/sessiondb"
)

// The test binary starts itself as a gateway of its own, which a test then kills. It reads messages from standard input, a line
// each, and acknowledges each on standard output.
const (
	roleVariable = "GATEWAYD_TEST_ROLE"
	dirVariable  = "GATEWAYD_TEST_DIR"
	llmVariable  = "GATEWAYD_TEST_LLM"
)

func childMain(role string) int {
	if role == foldRole {
		return childFold(os.Getenv(dirVariable), os.Getenv(llmVariable))
	}
	if role == daemonRole {
		return childDaemon(os.Getenv(dirVariable), os.Getenv(llmVariable))
	}
	if err := childGateway(os.Getenv(dirVariable), os.Getenv(llmVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func childGateway(dir, url string) error {
	ctx := context.Background()
	store, err := sessiondb.Open(ctx, sessiondb.Options{Path: filepath.Join(dir, "state.db")})
	if err != nil {
		return err
	}
	r, err := reaper.New(reaper.Options{Dir: filepath.Join(dir, "records"), Spares: -1})
	if err != nil {
		return err
	}
	go func() { _ = r.Run(ctx) }()
	g := New(Options{
		Store: store, Model: provider.New(provider.Options{BaseURL: url, Name: fakellm.Model}), Sole: true, Terminal: tool.Allow,
		Tools: tool.NewSet(tool.NewTerminal(tool.TerminalOptions{Reaper: r, Dir: dir}), tool.ReadFile{Dir: dir}),
	})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		result, err := g.Say(ctx, Say{Session: "s1", Source: SourceCLI, Text: lines.Text()}, nil)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", result.Text)
	}
	return lines.Err()
}

// child is a gateway in a process of its own.
type child struct {
	t *testing.T
	*peer.Process
}

func startChild(t *testing.T, dir, url string, env ...string) *child {
	t.Helper()
	return startAs(t, "gateway", nil, dir, url, env...)
}

func startAs(t *testing.T, role string, stderr io.Writer, dir, url string, env ...string) *child {
	t.Helper()
	cmd := exec.CommandContext(soon(t), os.Args[0])
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role, dirVariable+"="+dir, llmVariable+"="+url), env...)
	cmd.Stderr = stderr
	return &child{t, peer.Start(t, cmd)}
}

func TestAProcessKilledInATool(t *testing.T) {
	dir := t.TempDir()
	path, fifo := makeFIFO(t, dir)
	llm := fakellm.New(t, fakellm.Text{Text: "first answer"},
		fakellm.ToolCall{Name: "terminal", Text: "running it", Args: map[string]any{"command": "echo $$ > " + path + "; exec sleep 600"}})
	c := startChild(t, dir, llm.URL())
	c.Say("one")
	if got, _ := c.Line(); got != "first answer" {
		t.Fatalf("acknowledged %q", got)
	}
	c.Say("two")
	pid := readPID(t, fifo)
	c.Kill()
	r := newReaper(t, dir)
	h := &house{t: t, path: filepath.Join(dir, "state.db"), llm: llm}
	h.start(func(o *Options) {
		o.Tools, o.Sole = tools(tool.NewTerminal(tool.TerminalOptions{Reaper: r}), tool.ReadFile{}), false
	})
	got, err := h.Recover(soon(t))
	if _, gone := os.Stat("/proc/" + pid); gone == nil {
		t.Errorf("process %s of the interrupted command outlived the recovery", pid)
	}
	if records, err := r.Records(); err != nil || len(records) != 0 {
		t.Errorf("records left: %+v, %v", records, err)
	}
	if err != nil || len(got) != 1 || got[0].Session != "s1" || got[0].Unknown != 1 || !got[0].Closed || got[0].Err != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	if again, err := h.Recover(soon(t)); err != nil || len(again) != 0 {
		t.Errorf("recovered twice: %+v, %v", again, err)
	}
	rows := h.rows("s1")
	if want := "user assistant user assistant+1 tool/repair assistant/closing"; shape(rows) != want || rows[4].Content != unknownEffect || rows[4].Effect != "unknown" {
		t.Fatalf("%s, want %s", shape(rows), want)
	}
	if !strings.Contains(got[0].Outcome, "effect unknown") || rows[3].TurnID != got[0].TurnID {
		t.Errorf("%+v", got[0])
	}
	llm.Push(fakellm.Text{Text: "third answer"})
	h.say(Say{Text: "three"})
	assertWhole(t, h.rows("s1"))
	requests := llm.Requests()
	before, after := sentMessages(t, requests[1]), sentMessages(t, requests[2])
	for i := range before {
		if string(before[i]) != string(after[i]) {
			t.Errorf("message %d was %s, is now %s", i, before[i], after[i])
		}
	}
}

// makeFIFO makes a pipe by which a command says that it runs, opened so that a read of it can be bounded.
func makeFIFO(t *testing.T, dir string) (string, *os.File) {
	t.Helper()
	path := filepath.Join(dir, "started")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return path, f
}

// readPID waits for the line that the command writes.
func readPID(t *testing.T, f *os.File) string {
	t.Helper()
	if err := f.SetReadDeadline(time.Now().Add(60 * time.Second)); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(f).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// newReaper runs a reaper on the child's records for the length of the test.
func newReaper(t *testing.T, dir string) *reaper.Reaper {
	t.Helper()
	r, err := reaper.New(reaper.Options{Dir: filepath.Join(dir, "records"), Spares: -1, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func TestAProcessKilledInTheMiddleOfAnAnswer(t *testing.T) {
	dir := t.TempDir()
	sent := make(chan struct{}, 64)
	gate := make(chan struct{})
	llm := fakellm.New(t, fakellm.Text{Text: "half of an answer", ChunkChars: 5, Gate: gate, Sent: func(int) { sent <- struct{}{} }})
	c := startChild(t, dir, llm.URL())
	c.Say("one")
	gate <- struct{}{}
	<-sent
	c.Kill()
	h := &house{t: t, path: filepath.Join(dir, "state.db"), llm: llm}
	h.start(nil)
	got, err := h.Recover(soon(t))
	if err != nil || len(got) != 1 || got[0].Unknown != 0 || !got[0].Closed {
		t.Fatalf("%+v, %v", got, err)
	}
	llm.Push(fakellm.Text{Text: "a whole one"})
	if r := h.say(Say{Text: "two"}); r.Text != "a whole one" {
		t.Errorf("%+v", r)
	}
	if rows := h.rows("s1"); shape(rows) != "user assistant/closing user assistant" || rows[0].Content != "one" {
		t.Error(shape(rows))
	}
}

// deadTurn makes a turn, with rows that end in a read-only call or without any, under the lease of a process that is no more.
func deadTurn(t *testing.T, h *house, rows bool, change func(*sessiondb.Holder)) {
	t.Helper()
	if _, err := h.store.CreateSession(t.Context(), sessiondb.NewSession{ID: "s1", Prompt: "p"}); err != nil {
		t.Fatal(err)
	}
	holder, err := sessiondb.SelfHolder(daemonLabel + "turn_dead")
	if err != nil {
		t.Fatal(err)
	}
	holder.Start++
	change(&holder)
	l, err := h.store.AcquireTurn(t.Context(), "s1", holder, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if !rows {
		return
	}
	calls := plan([]provider.ToolCall{{ID: "a", Name: "look", Arguments: "{}"}}, "turn_dead", 1, h.opts.Tools)
	if _, err := h.store.Append(t.Context(), l, []sessiondb.NewMessage{
		{Role: roleUser, Content: "hi", TurnID: "turn_dead"}, callsRow(provider.Response{}, calls),
	}); err != nil {
		t.Fatal(err)
	}
}

func TestADanglingReadIsDroppedAndKept(t *testing.T) {
	h := newHouse(t, with(fake{name: "look", readOnly: true}))
	deadTurn(t, h, true, func(*sessiondb.Holder) {})
	got, err := h.Recover(soon(t))
	if err != nil || len(got) != 1 || got[0].Dropped != 1 || got[0].Unknown != 0 || got[0].TurnID != "turn_dead" {
		t.Fatalf("%+v, %v", got, err)
	}
	if rows := h.rows("s1"); shape(rows) != "user assistant/closing" {
		t.Error(shape(rows))
	}
	all, err := h.store.Messages(t.Context(), "s1", sessiondb.MessageFilter{IncludeInactive: true})
	if err != nil || len(all) != 3 {
		t.Errorf("a dropped row is superseded, not deleted: %s, %v", shape(all), err)
	}
}

func TestATurnThatDiedBeforeItsFirstRowLeavesNothing(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "one"})
	h.say(Say{Text: "hi"})
	deadTurn(t, h, false, func(*sessiondb.Holder) {})
	got, err := h.Recover(soon(t))
	if err != nil || len(got) != 1 || got[0].TurnID != "turn_dead" || got[0].Closed || !strings.HasPrefix(got[0].Outcome, "nothing to repair") {
		t.Errorf("%+v, %v", got, err)
	}
	if rows := h.rows("s1"); shape(rows) != "user assistant" {
		t.Error(shape(rows))
	}
}

func TestAHolderThatCannotBeLookedUpIsDeadOnlyWhereTheHomeIsLocked(t *testing.T) {
	elsewhere := func(h *sessiondb.Holder) { h.PIDNS = "pid:[1]" }
	for name, c := range map[string]struct {
		change func(*sessiondb.Holder)
		sole   bool
		want   int
	}{
		"a daemon, home locked":  {elsewhere, true, 1},
		"a daemon, not locked":   {elsewhere, false, 0},
		"a worker, home locked":  {func(h *sessiondb.Holder) { elsewhere(h); h.Label = "worker turn x" }, true, 0},
		"a dead one, not locked": {func(*sessiondb.Holder) {}, false, 1},
	} {
		h := newHouse(t, func(o *Options) { o.Tools, o.Sole = tools(fake{name: "look", readOnly: true}), c.sole })
		deadTurn(t, h, true, c.change)
		if got, err := h.Recover(soon(t)); err != nil || len(got) != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestALiveTurnOfAnotherProcessIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	gate := make(chan struct{})
	llm := fakellm.New(t, fakellm.Text{Text: "slow", Gate: gate})
	c := startChild(t, dir, llm.URL())
	c.Say("one")
	if _, err := llm.Wait(soon(t), 1); err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, path: filepath.Join(dir, "state.db"), llm: llm}
	h.start(nil)
	if got, err := h.Recover(soon(t)); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	llm.Push(fakellm.Text{Text: "mine"})
	done := make(chan Result, 1)
	go func() { done <- h.say(Say{Text: "two"}) }() // waits for the other process
	close(gate)
	if got, _ := c.Line(); got != "slow" {
		t.Errorf("acknowledged %q", got)
	}
	if r := <-done; r.Text != "mine" {
		t.Errorf("%+v", r)
	}
	if got := shape(h.rows("s1")); got != "user assistant user assistant" {
		t.Error(got)
	}
}

// TestAcknowledgedTurnsSurviveKills kills a gateway at moments that a seed decides, again and again on one file.
func TestAcknowledgedTurnsSurviveKills(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	var mu sync.Mutex
	arrived, until := make(chan struct{}, 1_000), 0
	llm := fakellm.Start(fakellm.Options{Each: func(r fakellm.Request) fakellm.Response {
		mu.Lock()
		defer mu.Unlock()
		if until--; until == 0 {
			arrived <- struct{}{}
		}
		return answerTo(r)
	}})
	t.Cleanup(llm.Close)
	acked, next := map[string]string{}, 0
	for range 6 {
		mu.Lock()
		until = 1 + random.IntN(8)
		mu.Unlock()
		next = runUntilKilled(t, startChild(t, dir, llm.URL()), arrived, acked, next, time.Duration(random.IntN(3_000))*time.Microsecond)
	}
	h := &house{t: t, path: filepath.Join(dir, "state.db"), llm: llm}
	h.start(nil)
	if _, err := h.Recover(soon(t)); err != nil {
		t.Fatal(err)
	}
	rows := h.rows("s1")
	assertWhole(t, rows)
	checkAcknowledged(t, rows, acked)
	if len(acked) == 0 {
		t.Error("nothing was acknowledged, so nothing was proved")
	}
	t.Logf("%d acknowledged, %d rows", len(acked), len(rows))
}

// answerTo lets each message make one terminal call and then answers it.
func answerTo(r fakellm.Request) fakellm.Response {
	var body struct {
		Messages []struct{ Role, Content string }
	}
	_ = json.Unmarshal(r.Body, &body)
	last := body.Messages[len(body.Messages)-1]
	if last.Role == roleUser {
		return fakellm.ToolCall{Name: "terminal", Args: map[string]any{"command": "echo result of " + last.Content}}
	}
	return fakellm.Text{Text: "answer, " + strings.ReplaceAll(last.Content, "\n", " ")}
}

// runUntilKilled sends messages one after the other, and kills the child a moment after the request that the seed chose.
func runUntilKilled(t *testing.T, c *child, arrived <-chan struct{}, acked map[string]string, next int, later time.Duration) int {
	t.Helper()
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		select {
		case <-arrived:
			vigil.LetPass(later, "the seed has chosen the moment")
		case <-soon(t).Done():
		}
		_ = c.Cmd.Process.Kill()
	}()
	for {
		text := fmt.Sprintf("message %d", next)
		next++
		c.Say(text)
		answer, ok := c.Line()
		if !ok {
			break
		}
		acked[text] = answer
	}
	<-killed
	c.Kill()
	return next
}

func checkAcknowledged(t *testing.T, rows []sessiondb.Message, acked map[string]string) {
	t.Helper()
	users, answers := map[string]int{}, map[string]string{}
	turn := ""
	for _, row := range rows {
		switch {
		case row.Role == roleUser:
			users[row.Content]++
			turn = row.Content
		case row.Role == roleAssistant && len(row.ToolCalls) == 0:
			answers[turn] += row.Content
		}
	}
	for text, answer := range acked {
		if users[text] != 1 || answers[text] != answer || !strings.Contains(answer, "result of "+text) {
			t.Errorf("%q was acknowledged with %q: %d user rows, answer %q", text, answer, users[text], answers[text])
		}
	}
	for text, n := range users {
		if n > 1 {
			t.Errorf("%q has %d rows", text, n)
		}
	}
}
