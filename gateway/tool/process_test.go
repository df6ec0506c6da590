package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatewayd/internal/procfs"
	"gatewayd/reaper"
)

// workshop is a terminal with its other half.
type workshop struct {
	t        *testing.T
	set      *Set
	terminal *Terminal
	reaper   *reaper.Reaper
	dir      string
}

func newWorkshop(t *testing.T, opts TerminalOptions) *workshop {
	t.Helper()
	w := &workshop{t: t, reaper: newReaper(t), dir: t.TempDir()}
	opts.Reaper, opts.Dir, opts.State = w.reaper, w.dir, t.TempDir()
	w.terminal = NewTerminal(opts)
	w.set = NewSet(w.terminal, w.terminal.Process())
	return w
}

func (w *workshop) call(session, name string, a map[string]any) Result {
	w.t.Helper()
	return w.set.Run(soon(w.t), Call{Name: name, Session: session, ID: "call", Policy: cli, Args: args(a)})
}

var handles = regexp.MustCompile(`(proc_[a-z0-9]{12}), pid (\d+)`)

// behind starts a command in the background and gives its handle.
func (w *workshop) behind(session, command string, more ...any) string {
	w.t.Helper()
	a := map[string]any{"command": command, "background": true}
	for i := 0; i < len(more); i += 2 {
		a[more[i].(string)] = more[i+1]
	}
	r := w.call(session, "terminal", a)
	found := handles.FindStringSubmatch(r.Content)
	if found == nil || r.Err || r.Effect != EffectDone {
		w.t.Fatalf("%+v", r)
	}
	return found[1]
}

func (w *workshop) process(session, action, id string, more ...any) Result {
	w.t.Helper()
	a := map[string]any{"action": action, "id": id}
	for i := 0; i < len(more); i += 2 {
		a[more[i].(string)] = more[i+1]
	}
	return w.call(session, "process", a)
}

// tagged counts the living processes of the commands that this process started.
func tagged(t *testing.T) (pids []int) {
	t.Helper()
	self, err := procfs.Self()
	if err != nil {
		t.Fatal(err)
	}
	mine := fmt.Sprintf("%s=term-%d-%d-", reaper.TagKey, self.PID, self.Start)
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && strings.Contains(string(env), mine) {
			var pid int
			_, _ = fmt.Sscan(e.Name(), &pid)
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestABackgroundCommandIsListedReadAwaitedAndEnded(t *testing.T) {
	w := newWorkshop(t, TerminalOptions{})
	id := w.behind("a", "for i in 1 2 3 4 5; do echo line $i; done; echo ready; read -r x; echo \"read: $?\"; exec sleep 600")
	short := w.behind("a", "echo gone; exit 3")
	for _, c := range []struct {
		r        Result
		want     string
		err      bool
		readOnly string
	}{
		{r: w.process("a", "wait", short), want: "gone\n[" + short + ": exit 3"},
		{r: w.process("a", "list", ""), want: id + "  running, pid "},
		{r: w.process("a", "list", ""), want: short + "  exit 3  echo gone"},
		{r: w.process("a", "write", id, "offset", 1), want: "standard input of " + id + " is closed", err: true},
		{r: w.process("a", "dance", id), want: "there is no action", err: true},
		{r: w.process("b", "list", ""), want: "[no background commands]"},
		{r: w.process("b", "kill", id), want: "there is no \"" + id + "\" among", err: true},
		{r: w.process("b", "log", id), want: "there is no \"" + id + "\" among", err: true},
	} {
		if !strings.Contains(c.r.Content, c.want) || c.r.Err != c.err || c.r.Effect != EffectNone {
			t.Errorf("want %q, got %+v", c.want, c.r)
		}
	}
	for !strings.Contains(w.process("a", "poll", id).Content, "read: 1\n") {
		if soon(t).Err() != nil {
			t.Fatal("the command never found its input closed")
		}
	}
	if r := w.process("a", "log", id, "offset", 2, "limit", 2); !strings.HasPrefix(r.Content, "line 2\nline 3\n[") || !strings.Contains(r.Content, "go on with offset 4") {
		t.Errorf("%+v", r)
	}
	if r := w.process("a", "wait", id, "timeout", 0.1); !strings.Contains(r.Content, "running, pid") {
		t.Errorf("a bounded wait: %+v", r)
	}
	if r := w.process("a", "kill", id); r.Effect != EffectDone || !strings.Contains(r.Content, "is gone: exit 1") {
		t.Errorf("%+v", r)
	}
	if left := tagged(t); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if records, err := w.reaper.Records(); err != nil || len(records) != 0 {
		t.Errorf("records left: %v, %v", records, err)
	}
}

func TestStoppingAConversationEndsItsSwarmAndNobodyElses(t *testing.T) {
	w := newWorkshop(t, TerminalOptions{})
	for range 7 {
		w.behind("a", "sleep 600 & setsid sleep 600 & wait")
	}
	w.behind("a", `trap 'for i in 1 2 3 4; do setsid sleep 600 & done' TERM; (trap "" TERM; sleep 600) & echo ready; while :; do sleep 0.05; done`)
	other := w.behind("b", "exec sleep 600")
	if n := w.set.StopSession(soon(t), "a"); n != 8 {
		t.Errorf("stopped %d", n)
	}
	r := w.process("b", "poll", other)
	if left := tagged(t); len(left) != 1 || !strings.Contains(r.Content, "running") {
		for _, pid := range left {
			command, _ := procfs.Command(pid)
			t.Errorf("left: %d %s", pid, command)
		}
		t.Errorf("the other: %+v", r)
	}
	if r := w.process("a", "list", ""); strings.Contains(r.Content, "running") || !strings.Contains(r.Content, whyStopped) {
		t.Errorf("%+v", r)
	}
}

func TestNothingIsLeftWhenTheReaperEnds(t *testing.T) {
	r, err := reaper.New(reaper.Options{Dir: t.TempDir(), Spares: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.Run(ctx) }()
	terminal := NewTerminal(TerminalOptions{Reaper: r, Dir: t.TempDir()})
	w := &workshop{t: t, set: NewSet(terminal, terminal.Process()), terminal: terminal, reaper: r}
	for range 4 {
		w.behind("a", `trap 'for i in 1 2 3 4; do setsid sleep 600 & done' TERM; setsid sleep 600 & sleep 600`)
	}
	cancel()
	<-ended
	if left := tagged(t); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestTheNumberOfBackgroundCommandsIsBounded(t *testing.T) {
	w := newWorkshop(t, TerminalOptions{BackgroundMax: 2})
	w.behind("a", "exec sleep 600")
	second := w.behind("a", "exec sleep 600")
	if r := w.call("a", "terminal", map[string]any{"command": "echo x >made", "background": true}); !r.Err || r.Effect != EffectNone || !strings.Contains(r.Content, "background_max") {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "made")); err == nil {
		t.Error("the refused command ran")
	}
	w.behind("b", "exec sleep 600")
	w.process("a", "kill", second)
	w.behind("a", "exec sleep 600")
	for _, session := range []string{"a", "b"} {
		w.set.StopSession(soon(t), session)
	}
	for range keptEnded + 3 {
		w.process("a", "wait", w.behind("a", "true"))
	}
	if n := strings.Count(w.process("a", "list", "").Content, "proc_"); n != keptEnded {
		t.Errorf("%d ends are remembered", n)
	}
}

func TestABackgroundCommandEndsAtItsDeadline(t *testing.T) {
	w := newWorkshop(t, TerminalOptions{})
	id := w.behind("a", "trap '' TERM; sleep 600", "timeout", 0.2)
	if r := w.process("a", "wait", id); !strings.Contains(r.Content, "exit 124: stopped after 200ms") {
		t.Errorf("%+v", r)
	}
}

func TestBackgroundIsGatedLikeEverythingElse(t *testing.T) {
	w := newWorkshop(t, TerminalOptions{})
	r := w.set.Run(soon(t), Call{Name: "terminal", Session: "a", Policy: Policy{Context: "api"}, Args: args(map[string]any{"command": "touch made", "background": true})})
	if !r.Err || !strings.Contains(r.Content, "tools.terminal") {
		t.Errorf("%+v", r)
	}
	id := w.behind("a", "exec sleep 600")
	kill := Call{Name: "process", Session: "a", Policy: Policy{Context: "notify"}, Args: args(map[string]any{"action": "kill", "id": id})}
	if r := w.set.Run(soon(t), kill); !r.Err || !strings.Contains(r.Content, "may only read") {
		t.Errorf("news may end a command: %+v", r)
	}
	kill.Args = args(map[string]any{"action": "poll", "id": id})
	if r := w.set.Run(soon(t), kill); r.Err {
		t.Errorf("news may not look: %+v", r)
	}
}

// What ends together is one message, and what was ended on purpose is none.
func TestEndsAreToldOnceAndTogether(t *testing.T) {
	w := newWorkshop(t, TerminalOptions{Together: 200 * time.Millisecond})
	type told struct{ session, uid, text string }
	messages := make(chan told, 8)
	w.set.Connect(func(_ context.Context, session, uid, text string) error {
		messages <- told{session, uid, text}
		return nil
	})
	gate := filepath.Join(w.dir, "gate")
	var ids []string
	for i := range 3 {
		ids = append(ids, w.behind("a", fmt.Sprintf("while [ ! -e gate ]; do sleep 0.02; done; echo said %d; exit %d", i, i), "notify_on_complete", true))
	}
	silent := w.behind("a", "true")
	killed := w.behind("a", "exec sleep 600", "notify_on_complete", true)
	w.process("a", "kill", killed)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var m told
	select {
	case m = <-messages:
	case <-soon(t).Done():
		t.Fatal("nothing was told")
	}
	for i, id := range ids {
		if !strings.Contains(m.text, id) || !strings.Contains(m.text, fmt.Sprintf("exit %d\nsaid %d", i, i)) {
			t.Errorf("%s is not told:\n%s", id, m.text)
		}
	}
	if strings.Contains(m.text, silent) || strings.Contains(m.text, killed) || m.session != "a" || !strings.HasPrefix(m.uid, "ended-proc_") {
		t.Errorf("%+v", m)
	}
	if len(messages) != 0 {
		t.Errorf("a second message: %+v", <-messages)
	}
}

func TestADetachedCommandGoesOnWithoutItsTurn(t *testing.T) {
	w := newWorkshop(t, TerminalOptions{})
	began, result := make(chan struct{}, 64), make(chan Result, 1)
	ctx, cancel := context.WithCancelCause(soon(t))
	go func() {
		result <- w.set.Run(ctx, Call{
			Name: "terminal", Session: "a", ID: "c7", Policy: cli, Progress: func() { began <- struct{}{} },
			Args: args(map[string]any{"command": "echo begun; while [ ! -e gate ]; do sleep 0.02; done; echo finished", "timeout": 600}),
		})
	}()
	<-began
	if w.set.Detach("a", "c8") || w.set.Detach("b", "c7") {
		t.Error("another call was detached")
	}
	if !w.set.Detach("a", "c7") {
		t.Fatal("not detached")
	}
	r := <-result
	cancel(errors.New("the turn is over"))
	found := handles.FindStringSubmatch(r.Content)
	if found == nil || r.Effect != EffectDone || r.Interrupted || !strings.HasPrefix(r.Content, "begun\n[") {
		t.Fatalf("%+v", r)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "gate"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := w.process("a", "wait", found[1]); !strings.HasPrefix(r.Content, "begun\nfinished\n[") || !strings.Contains(r.Content, "exit 0") {
		t.Errorf("%+v", r)
	}
	if w.set.Detach("a", "c7") {
		t.Error("detached twice")
	}
}

func TestADetachedCommandWithoutAPlaceIsEnded(t *testing.T) {
	w := newWorkshop(t, TerminalOptions{BackgroundMax: 1})
	w.behind("a", "sleep 600")
	began, result := make(chan struct{}, 64), make(chan Result, 1)
	go func() {
		result <- w.set.Run(soon(t), Call{
			Name: "terminal", Session: "a", ID: "c7", Policy: cli, Progress: func() { began <- struct{}{} }, Args: args(map[string]any{"command": "echo $$; exec sleep 600"}),
		})
	}()
	<-began
	if !w.set.Detach("a", "c7") {
		t.Fatal("not detached")
	}
	r := <-result
	if !r.Err || r.Effect != EffectUnknown || !strings.Contains(r.Content, "exit 130: "+whyNoHandle) {
		t.Errorf("%+v", r)
	}
	var pid int
	if _, err := fmt.Sscan(r.Content, &pid); err != nil || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		t.Errorf("process %d is still there, %v", pid, err)
	}
	records, err := w.reaper.Records()
	if err != nil || len(records) != 1 {
		t.Errorf("%d records: %+v, %v", len(records), records, err)
	}
}

func TestSecretsInOutputAreNotShown(t *testing.T) {
	w := newWorkshop(t, TerminalOptions{})
	token := "ghp_" + strings.Repeat("x", 36)
	r := w.call("a", "terminal", map[string]any{"command": "echo token " + token + "; echo 'DB_PASSWORD=hunter2hunter2'"})
	if strings.Contains(r.Content, token) || strings.Contains(r.Content, "hunter2") || !strings.Contains(r.Content, "[redacted]") {
		t.Errorf("%+v", r)
	}
	id := w.behind("a", "echo token "+token)
	for _, r := range []Result{w.process("a", "wait", id), w.process("a", "log", id), w.process("a", "list", "")} {
		if strings.Contains(r.Content, token) {
			t.Errorf("%+v", r)
		}
	}
}
