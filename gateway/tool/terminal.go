package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/reaper"
)

// Defaults of the terminal.
const (
	DefaultTerminalTimeout = 180 * time.Second
	MaxTerminalTimeout     = time.Hour        // what a model may ask for
	terminalGrace          = time.Second      // a command that is stopped has had its time already
	terminalHeartbeat      = 10 * time.Second // a silent command is no stalled turn: its own timeout bounds it
	defaultPath            = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Starter is the part of reaper.Reaper that the terminal needs.
type Starter interface {
	Start(ctx context.Context, spec reaper.Spec) (*reaper.Process, error)
	Records() ([]reaper.Record, error)
	Adopt(id string) (*reaper.Process, error)
	Forget(id string) error
}

// TerminalOptions configure the terminal. Only Reaper is needed.
type TerminalOptions struct {
	Reaper    Starter
	Env       []string      // the whole environment of commands; variables that look like secrets are taken out
	Dir       string        // where commands run unless the call says otherwise
	Timeout   time.Duration // of a command; 0 means DefaultTerminalTimeout
	OutputMax int           // bytes kept of a command's output; 0 means DefaultOutputMax
	Shell     string        // empty: bash where it is installed, else sh
	Nameless  bool          // commands are not told in which conversation they run
}

// Terminal runs shell commands, each under a keeper of its own, which ends the whole tree of the command at the timeout, at an
// interrupt, or with the daemon. Standard input is closed.
type Terminal struct{ opts TerminalOptions }

// NewTerminal makes the tool.
func NewTerminal(opts TerminalOptions) *Terminal {
	if opts.Timeout <= 0 {
		opts.Timeout = DefaultTerminalTimeout
	}
	if opts.Shell == "" {
		opts.Shell = "/bin/sh"
		if _, err := os.Stat("/bin/bash"); err == nil {
			opts.Shell = "/bin/bash"
		}
	}
	opts.Env = slices.DeleteFunc(slices.Clone(opts.Env), looksSecret)
	if !slices.ContainsFunc(opts.Env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") }) {
		opts.Env = append(opts.Env, defaultPath)
	}
	opts.Env = append(opts.Env, "TERM=dumb", "PAGER=cat", "GIT_TERMINAL_PROMPT=0")
	return &Terminal{opts: opts}
}

// looksSecret knows variables that a command of a model must not see. The list handed over is an allow-list already; this is the
// second lock.
func looksSecret(kv string) bool {
	key, _, _ := strings.Cut(strings.ToUpper(kv), "=")
	for _, part := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"} {
		if strings.Contains(key, part) {
			return true
		}
	}
	return false
}

// Spec tells the model about it.
func (t *Terminal) Spec() provider.ToolSpec {
	return provider.ToolSpec{
		Name: "terminal",
		Description: "Run a shell command on the user's machine and get its output (stdout and stderr together, the middle left out when it " +
			"is long) and its exit code. Standard input is closed. Each call is a new shell; everything it started ends with it.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"},` +
			`"timeout":{"type":"number","description":"seconds"},"workdir":{"type":"string"}},"required":["command"]}`),
	}
}

// ReadOnly is false: nobody can tell from a command's text.
func (t *Terminal) ReadOnly(json.RawMessage) bool { return false }

// Permission says that policy decides.
func (t *Terminal) Permission() Permission { return NeedsTerminal }

// Command shows the floor what would run.
func (t *Terminal) Command(call Call) string {
	args, _ := t.parse(call)
	return args.Command
}

type terminalArgs struct {
	Command string
	Timeout float64
	Workdir string
}

func (t *Terminal) parse(call Call) (terminalArgs, error) {
	var args terminalArgs
	if err := json.Unmarshal(call.Args, &args); err != nil {
		return args, fmt.Errorf("the arguments do not fit (%w); nothing was run", err)
	}
	if strings.TrimSpace(args.Command) == "" || strings.ContainsRune(args.Command, 0) {
		return args, errors.New("command is empty or holds a zero byte; nothing was run")
	}
	return args, nil
}

// Run runs the command to its end, its timeout, or the end of ctx.
func (t *Terminal) Run(ctx context.Context, call Call) Result {
	args, err := t.parse(call)
	if err != nil {
		return Refuse("%v", err)
	}
	out := newOutput(t.opts.OutputMax)
	id, err := newKeeperID()
	if err != nil {
		return Refuse("the command could not be started: %v", err)
	}
	spec := reaper.Spec{
		ID: id, Argv: []string{t.opts.Shell, "-c", args.Command}, Dir: t.dir(call, args.Workdir),
		Env: t.env(call), Lifetime: reaper.EndsWithDaemon,
		Output: alive{out, call.Progress}, Deadline: t.timeout(args.Timeout), Grace: terminalGrace,
	}
	process, err := t.opts.Reaper.Start(ctx, spec)
	if err != nil {
		return Refuse("the command could not be started: %v", err)
	}
	interrupted := t.wait(ctx, process, call.Progress)
	record := process.Record()
	if err := t.opts.Reaper.Forget(spec.ID); err != nil {
		call.Log.Warn("exit record of a command not removed", "session", call.Session, "keeper", spec.ID, "error", err)
	}
	return verdictOf(ctx, record, out.String(), spec.Deadline, interrupted)
}

// env names the conversation, so that a card which a command creates is reported back to it.
func (t *Terminal) env(call Call) []string {
	env := slices.Clone(t.opts.Env)
	if !t.opts.Nameless {
		env = append(env, "GATEWAYD_SESSION_ID="+call.Session)
	}
	return env
}

func (t *Terminal) dir(call Call, asked string) string {
	dir := t.opts.Dir
	if call.Dir != "" {
		dir = call.Dir
	}
	if asked == "" || filepath.IsAbs(asked) {
		return firstOf(asked, dir)
	}
	return filepath.Join(dir, asked)
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (t *Terminal) timeout(asked float64) time.Duration {
	if asked <= 0 {
		return t.opts.Timeout
	}
	if asked >= MaxTerminalTimeout.Seconds() {
		return MaxTerminalTimeout
	}
	return max(time.Duration(asked*float64(time.Second)), 100*time.Millisecond)
}

// wait returns when the whole tree is gone, and says whether that was because ctx ended.
func (t *Terminal) wait(ctx context.Context, p *reaper.Process, progress func()) (interrupted bool) {
	beat := time.NewTicker(terminalHeartbeat)
	defer beat.Stop()
	told := ctx.Done()
	for {
		select {
		case <-p.Done():
			return interrupted
		case <-told:
			told, interrupted = nil, true
			p.Stop(terminalGrace)
		case <-beat.C:
			progress()
		}
	}
}

// verdictOf says in the result's last line how the command ended.
func verdictOf(ctx context.Context, r reaper.Record, output string, limit time.Duration, interrupted bool) Result {
	if output == "" {
		output = "(no output)"
	}
	if !strings.HasSuffix(output, "\n") {
		output += "\n"
	}
	end := func(err bool, effect Effect, format string, args ...any) Result {
		return Result{Content: output + "[" + fmt.Sprintf(format, args...) + "]", Err: err, Effect: effect}
	}
	switch {
	case r.Reason == reaper.Exited:
		return end(r.Code != 0, EffectDone, "exit %d", r.Code)
	case interrupted:
		result := end(true, EffectUnknown, "exit 130: interrupted: %v. Its effect is UNKNOWN", context.Cause(ctx))
		result.Interrupted = true
		return result
	case r.Reason == reaper.Signaled:
		return end(true, EffectUnknown, "exit %d: killed by signal %d", 128+r.Signal, r.Signal)
	case r.Reason == reaper.Deadline:
		return end(true, EffectUnknown, "exit 124: stopped after %v, its timeout. What it did until then stays done", limit)
	case r.Reason == reaper.StartFailed:
		return end(true, EffectNone, "not started: %s", r.Error)
	}
	return end(true, EffectUnknown, "ended without an exit code (%s); its effect is UNKNOWN", r.Reason)
}

// alive counts output as a sign of life.
type alive struct {
	out      *output
	progress func()
}

func (a alive) Write(p []byte) (int, error) {
	a.progress()
	return a.out.Write(p)
}
