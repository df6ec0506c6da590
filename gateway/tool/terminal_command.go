package tool

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gatewayd/kanban"
	"gatewayd/reaper"
)

// command is one shell command under its keeper. Somebody waits for it, or it is in the background and has a handle.
type command struct {
	session, call string
	handle        string
	text          string
	process       *reaper.Process
	out           *output
	limit         time.Duration
	started       time.Time
	notify        bool

	progress atomic.Pointer[func()] // of the turn that waits
	leave    chan struct{}          // closed when it goes on without its turn
	leaving  sync.Once

	done chan struct{} // closed when a command in the background has ended and its end may be told

	mu    sync.Mutex
	asked string // why it was ended, in words; empty: by itself
}

// command is what a call asks for, not started yet.
func (t *Terminal) command(call Call, args terminalArgs, limit time.Duration) *command {
	c := &command{
		session: call.Session, call: call.ID, text: args.Command, out: newOutput(t.opts.OutputMax), limit: limit, started: time.Now(),
		notify: args.Notify, leave: make(chan struct{}), done: make(chan struct{}),
	}
	c.progress.Store(&call.Progress)
	return c
}

// start runs a command. Its keeper ends it at the deadline at the latest; who waits for it does so at its limit.
func (t *Terminal) start(ctx context.Context, c *command, call Call, sh *footing, deadline time.Duration) error {
	id, err := newKeeperID()
	if err != nil {
		return err
	}
	env, err := sh.prepare(t.opts.State, id, t.opts.Shell)
	if err != nil {
		return err
	}
	c.process, err = t.opts.Reaper.Start(ctx, reaper.Spec{
		ID: id, Argv: []string{t.opts.Shell, "-c", c.text}, Dir: sh.dir, Env: t.env(call, sh, env), Lifetime: reaper.EndsWithDaemon,
		Output: c, Deadline: deadline, Grace: terminalGrace,
	})
	return err
}

// forget removes the record of a command that has ended and is accounted for.
func (t *Terminal) forget(c *command) {
	if err := t.opts.Reaper.Forget(c.process.ID()); err != nil {
		slog.Warn("exit record of a command not removed", "session", c.session, "keeper", c.process.ID(), "error", err)
	}
}

// env is what the conversation's last command left, and what every command is given: the conversation, so that a card which a
// command creates is reported back to it.
func (t *Terminal) env(call Call, sh *footing, more []string) []string {
	env := slices.Clone(t.opts.Env)
	if sh.env != nil {
		env = slices.Clone(sh.env)
	}
	env = append(append(env, t.forced...), more...)
	if !t.opts.Nameless {
		env = append(env, "GATEWAYD_SESSION_ID="+call.Session)
	}
	return env
}

// Write takes output, which is a sign of life.
func (c *command) Write(p []byte) (int, error) {
	if progress := c.progress.Load(); progress != nil {
		(*progress)()
	}
	return c.out.Write(p)
}

// stop asks for its end, and keeps the first reason.
func (c *command) stop(why string) {
	c.mu.Lock()
	if c.asked == "" {
		c.asked = why
	}
	c.mu.Unlock()
	c.process.Stop(terminalGrace)
}

func (c *command) why() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// depart lets the turn that waits go on; false when that was asked for already.
func (c *command) depart() (first bool) {
	c.leaving.Do(func() { first = true; close(c.leave) })
	return first
}

// text of output as a row may hold it.
func clean(text string) string { return kanban.Redact(text) }

// Reasons for which a command is ended.
const (
	whyTimeout  = "timeout"
	whyStopped  = "stopped with the conversation's other commands"
	whyKilled   = "ended by process kill"
	whyNoHandle = "too many commands run in the background"
)

// outcome says how a command ended: in words, the exit code that a shell would tell, and what it may have changed.
func (c *command) outcome(r reaper.Record) (words string, failed bool, effect Effect) {
	why := c.why()
	switch {
	case r.Reason == reaper.Exited:
		return fmt.Sprintf("exit %d", r.Code), r.Code != 0, EffectDone
	case r.Reason == reaper.Signaled:
		return fmt.Sprintf("exit %d: killed by signal %d", 128+r.Signal, r.Signal), true, EffectUnknown
	case r.Reason == reaper.Deadline, why == whyTimeout:
		return fmt.Sprintf("exit 124: stopped after %v, its timeout. What it did until then stays done", c.limit), true, EffectUnknown
	case r.Reason == reaper.StartFailed:
		return "not started: " + r.Error, true, EffectNone
	case why == "" && (r.Reason == reaper.Stopped || r.Reason == reaper.DaemonGone):
		return "exit 130: ended with gatewayd. Its effect is UNKNOWN", true, EffectUnknown
	case why != "":
		return fmt.Sprintf("exit 130: %s. Its effect is UNKNOWN", why), true, EffectUnknown
	}
	return fmt.Sprintf("ended without an exit code (%s); its effect is UNKNOWN", r.Reason), true, EffectUnknown
}

// withEnding puts the outcome below the output.
func withEnding(output, words string) string {
	if output == "" {
		output = "(no output)"
	}
	if !strings.HasSuffix(output, "\n") {
		output += "\n"
	}
	return output + "[" + words + "]"
}
