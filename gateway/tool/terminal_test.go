package tool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gatewayd/reaper"
)

func shell(t *testing.T, opts TerminalOptions) func(ctx context.Context, a map[string]any) Result {
	t.Helper()
	if opts.Reaper == nil {
		opts.Reaper = newReaper(t)
	}
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	set := NewSet(NewTerminal(opts))
	return func(ctx context.Context, a map[string]any) Result {
		return set.Run(ctx, Call{Name: "terminal", Session: "s1", Args: args(a), Policy: cli})
	}
}

func TestTerminalAnswersWithOutputAndExitCode(t *testing.T) {
	dir := t.TempDir()
	run := shell(t, TerminalOptions{Dir: dir})
	for _, c := range []struct {
		name    string
		args    map[string]any
		content string
		err     bool
		effect  Effect
	}{
		{"output", map[string]any{"command": "echo hi; echo there >&2"}, "hi\nthere\n[exit 0]", false, EffectDone},
		{"no output", map[string]any{"command": "true"}, "(no output)\n[exit 0]", false, EffectDone},
		{"exit code", map[string]any{"command": "printf x; exit 7"}, "x\n[exit 7]", true, EffectDone},
		{"signal", map[string]any{"command": "kill -9 $$"}, "(no output)\n[exit 137: killed by signal 9]", true, EffectUnknown},
		{"working directory", map[string]any{"command": "pwd"}, dir + "\n[exit 0]", false, EffectDone},
		{"session", map[string]any{"command": "echo $GATEWAYD_SESSION_ID"}, "s1\n[exit 0]", false, EffectDone},
		{"closed input", map[string]any{"command": "cat; echo end"}, "end\n[exit 0]", false, EffectDone},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(soon(t), c.args)
			if r.Content != c.content || r.Err != c.err || r.Effect != c.effect {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestTerminalRefusesWhatCannotRun(t *testing.T) {
	run := shell(t, TerminalOptions{})
	for name, a := range map[string]map[string]any{
		"no command": {"command": " "}, "wrong type": {"command": 7}, "zero byte": {"command": "echo \x00"},
		"missing directory": {"command": "touch x", "workdir": "/no/such/dir"},
	} {
		if r := run(soon(t), a); !r.Err || r.Effect != EffectNone {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestTerminalTimeoutEndsTheWholeTreeWithCode124(t *testing.T) {
	dir := t.TempDir()
	run := shell(t, TerminalOptions{Dir: dir})
	r := run(soon(t), map[string]any{"command": "echo begun; (setsid sleep 600 & echo $! >pid); sleep 600", "timeout": 0.5})
	if !strings.HasPrefix(r.Content, "begun\n[exit 124: stopped after 500ms") || r.Effect != EffectUnknown || !r.Err {
		t.Errorf("%+v", r)
	}
	assertGone(t, filepath.Join(dir, "pid"))
}

func TestTerminalInterruptEndsTheWholeTreeWithCode130(t *testing.T) {
	dir := t.TempDir()
	started := make(chan struct{}, 64)
	ctx, cancel := context.WithCancelCause(soon(t))
	set := NewSet(NewTerminal(TerminalOptions{Reaper: newReaper(t), Dir: dir}))
	go func() { <-started; cancel(errors.New("stopped by the user")) }()
	r := set.Run(ctx, Call{
		Name: "terminal", Policy: cli, Progress: func() { started <- struct{}{} },
		Args: args(map[string]any{"command": "trap '' TERM; echo $$ >pid; echo begun; while :; do sleep 1; done"}),
	})
	if !strings.HasSuffix(r.Content, "[exit 130: interrupted: stopped by the user. Its effect is UNKNOWN]") || !r.Interrupted || r.Effect != EffectUnknown {
		t.Errorf("%+v", r)
	}
	assertGone(t, filepath.Join(dir, "pid"))
}

func assertGone(t *testing.T, file string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(raw))); err == nil {
		t.Errorf("process %s is still there", strings.TrimSpace(string(raw)))
	}
}

func TestTerminalOutputIsBoundedWhileItComes(t *testing.T) {
	run := shell(t, TerminalOptions{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := run(soon(t), map[string]any{"command": "head -c 30000000 /dev/zero | tr '\\0' A; echo; for i in $(seq 20000); do echo a line; done; echo done"})
	runtime.ReadMemStats(&after)
	if all := after.TotalAlloc - before.TotalAlloc; all > 10<<20 {
		t.Errorf("%d bytes of memory were taken for 30 MB of output", all)
	}
	if len(r.Content) > 60_000 || !strings.HasSuffix(r.Content, "done\n[exit 0]") || !strings.Contains(r.Content, "left out") {
		t.Errorf("%d bytes, ends %.60q", len(r.Content), r.Content[max(0, len(r.Content)-60):])
	}
}

func TestTerminalEnvironmentHasNoSecretsAndNothingInherited(t *testing.T) {
	t.Setenv("GATEWAYD_TEST_INHERITED", "1")
	run := shell(t, TerminalOptions{Env: []string{"PATH=/usr/bin:/bin", "OPENAI_API_KEY=sk-1", "GITHUB_TOKEN=t", "LANG=C.UTF-8", "db_password=p"}})
	r := run(soon(t), map[string]any{"command": "env"})
	for _, bad := range []string{"sk-1", "GITHUB_TOKEN", "db_password", "GATEWAYD_TEST_INHERITED"} {
		if strings.Contains(r.Content, bad) {
			t.Errorf("the environment holds %s:\n%s", bad, r.Content)
		}
	}
	if !strings.Contains(r.Content, "LANG=C.UTF-8") {
		t.Errorf("LANG is missing:\n%s", r.Content)
	}
}

// countingStarter counts what the terminal leaves behind.
type countingStarter struct {
	*reaper.Reaper
	forgotten atomic.Int64
}

func (c *countingStarter) Forget(id string) error {
	c.forgotten.Add(1)
	return c.Reaper.Forget(id)
}

func TestTerminalLeavesNoRecordBehind(t *testing.T) {
	c := &countingStarter{Reaper: newReaper(t)}
	shell(t, TerminalOptions{Reaper: c})(soon(t), map[string]any{"command": "true"})
	records, err := c.Records()
	if err != nil || len(records) != 0 || c.forgotten.Load() != 1 {
		t.Errorf("%d records left, %d forgotten, %v", len(records), c.forgotten.Load(), err)
	}
}

func TestTerminalBoundsTheTimeoutAModelAsksFor(t *testing.T) {
	for asked, want := range map[float64]time.Duration{
		0: time.Minute, -3: time.Minute, 5: 5 * time.Second, 0.0001: 100 * time.Millisecond, 1e300: MaxTerminalTimeout,
	} {
		if got := timeout(asked, time.Minute, MaxTerminalTimeout); got != want {
			t.Errorf("%v gives %v, want %v", asked, got, want)
		}
	}
}

func TestACommandWhoseKeeperWasKilledHasAnUnknownEffect(t *testing.T) {
	r := newReaper(t)
	started := make(chan struct{}, 64)
	set := NewSet(NewTerminal(TerminalOptions{Reaper: r, Dir: t.TempDir()}))
	go func() {
		<-started
		records, err := r.Records()
		if err != nil || len(records) != 1 {
			t.Errorf("%+v, %v", records, err)
			return
		}
		_ = syscall.Kill(records[0].Keeper.PID, syscall.SIGKILL)
	}()
	res := set.Run(soon(t), Call{
		Name: "terminal", Policy: cli, Progress: func() { started <- struct{}{} }, Args: args(map[string]any{"command": "echo begun; exec sleep 600"}),
	})
	if !res.Err || res.Effect != EffectUnknown || !strings.Contains(res.Content, "keeper-lost") || !strings.HasPrefix(res.Content, "begun\n") {
		t.Errorf("%+v", res)
	}
}
