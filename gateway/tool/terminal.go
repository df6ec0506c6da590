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
	DefaultTerminalTimeout   = 180 * time.Second
	MaxTerminalTimeout       = time.Hour        // what a model may ask for while a turn waits
	DefaultBackgroundTimeout = 24 * time.Hour   // a server that somebody tries out; nothing runs for ever because it was forgotten
	DefaultBackgroundMax     = 16               // for one conversation: the swarm of an eager model, and still a bounded machine
	terminalGrace            = time.Second      // a command that is stopped has had its time already
	terminalHeartbeat        = 10 * time.Second // a silent command is no stalled turn: its own timeout bounds it
	defaultPath              = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
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
	State     string        // a directory for what one command leaves for the next; empty: directory and variables are not carried
	Timeout   time.Duration // of a command that a turn waits for; 0 means DefaultTerminalTimeout
	OutputMax int           // bytes kept of a command's output; 0 means DefaultOutputMax
	Shell     string        // empty: bash where it is installed, else sh
	Nameless  bool          // commands are not told in which conversation they run

	BackgroundTimeout time.Duration // of a command in the background; 0 means DefaultBackgroundTimeout
	BackgroundMax     int           // of one conversation, and a quarter of that of all; 0 means DefaultBackgroundMax
	Together          time.Duration // how long news of an end waits for others, to be told in one message; 0 means two seconds
}

// Terminal runs shell commands, each under a keeper of its own, which ends the whole tree of the command at the timeout, at an
// interrupt, or with the daemon. Standard input is closed. In a conversation a command starts where the one before it ended, with
// the variables and functions that it exported.
type Terminal struct {
	opts       TerminalOptions
	forced     []string // part of every command's environment, whatever a command before it has set
	shells     *shells
	background *background
	news       *news
}

// NewTerminal makes the tool. Its other half is Process.
func NewTerminal(opts TerminalOptions) *Terminal {
	opts = opts.withDefaults()
	forced := append(slices.DeleteFunc(slices.Clone(opts.Env), func(kv string) bool { return !ours(kv) }), "TERM=dumb", "PAGER=cat", "GIT_TERMINAL_PROMPT=0")
	return &Terminal{
		opts: opts, forced: forced, shells: newShells(), background: newBackground(opts.BackgroundMax), news: newNews(opts.Together),
	}
}

func (o TerminalOptions) withDefaults() TerminalOptions {
	if o.Shell == "" {
		o.Shell = "/bin/sh"
		if _, err := os.Stat("/bin/bash"); err == nil {
			o.Shell = "/bin/bash"
		}
	}
	o.Env = slices.DeleteFunc(slices.Clone(o.Env), looksSecret)
	if !slices.ContainsFunc(o.Env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") }) {
		o.Env = append(o.Env, defaultPath)
	}
	positive(&o.Timeout, DefaultTerminalTimeout)
	positive(&o.BackgroundTimeout, DefaultBackgroundTimeout)
	positive(&o.BackgroundMax, DefaultBackgroundMax)
	positive(&o.Together, together)
	return o
}

func positive[T int | int64 | time.Duration](value *T, fallback T) {
	if *value <= 0 {
		*value = fallback
	}
}

// ours knows the variables that gatewayd itself gives to a command.
func ours(kv string) bool {
	return strings.HasPrefix(kv, "GATEWAYD_") || strings.HasPrefix(kv, "HERMES_")
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
			"is long) and its exit code. Standard input is closed. The next call starts in the directory this one ends in and with the variables " +
			"and functions it exported; everything else it started ends with it. With background it goes on by itself: the tool process shows, " +
			"awaits and ends it, and notify_on_complete sends a message here when it has ended.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"},` +
			`"timeout":{"type":"number","description":"seconds"},"workdir":{"type":"string","description":"for this call only"},` +
			`"background":{"type":"boolean"},"notify_on_complete":{"type":"boolean"}},"required":["command"]}`),
	}
}

// ReadOnly is false: nobody can tell from a command's text.
func (t *Terminal) ReadOnly(json.RawMessage) bool { return false }

// Class looks at the command's words.
func (t *Terminal) Class(raw json.RawMessage) Class {
	var args terminalArgs
	if json.Unmarshal(raw, &args) == nil && destructive(args.Command) {
		return ClassDestructive
	}
	return ClassEffect
}

// Permission says that policy decides.
func (t *Terminal) Permission() Permission { return NeedsTerminal }

// Command shows the floor what would run.
func (t *Terminal) Command(call Call) string {
	args, _ := t.parse(call)
	return args.Command
}

type terminalArgs struct {
	Command    string
	Timeout    float64
	Workdir    string
	Background bool
	Notify     bool `json:"notify_on_complete"`
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

// Run runs the command to its end, its timeout, or the end of ctx; in the background it returns as soon as the command runs.
func (t *Terminal) Run(ctx context.Context, call Call) Result {
	args, err := t.parse(call)
	if err != nil {
		return Refuse("%v", err)
	}
	if args.Background {
		return t.runBehind(ctx, call, args)
	}
	return t.runBefore(ctx, call, args)
}

// Connect gives the way to send news of an end.
func (t *Terminal) Connect(tell Tell) { t.news.connect(tell) }

func (t *Terminal) dir(base, asked string) string {
	if asked == "" || filepath.IsAbs(asked) {
		return firstOf(asked, base)
	}
	return filepath.Join(base, asked)
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// timeout is what a command gets: what was asked for, within what may be asked for.
func timeout(asked float64, usual, most time.Duration) time.Duration {
	switch {
	case asked <= 0:
		return usual
	case asked >= most.Seconds():
		return most
	}
	return max(time.Duration(asked*float64(time.Second)), 100*time.Millisecond)
}
