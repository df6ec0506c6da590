package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gatewayd/gateway/provider"
)

const (
	pollLines   = 20
	logLines    = 200
	logMaxLines = 2_000
	waitUsual   = 30 * time.Second
	waitMost    = 5 * time.Minute // below the time after which a turn counts as stalled
)

// Process shows, awaits and ends the commands that a conversation has in the background.
type Process struct{ terminal *Terminal }

// Process gives the terminal's other half.
func (t *Terminal) Process() Process { return Process{t} }

// Spec tells the model about it.
func (Process) Spec() provider.ToolSpec {
	return provider.ToolSpec{
		Name: "process",
		Description: "The background commands of this conversation: list them; poll one for its state and last lines; log pages through what " +
			"it said (offset is a line from 1); wait until it ends or timeout seconds pass; kill it with everything it started.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"action":{"type":"string","enum":["list","poll","log","wait","kill","write"]},` +
			`"id":{"type":"string","description":"proc_…"},"offset":{"type":"integer"},"limit":{"type":"integer"},` +
			`"timeout":{"type":"number","description":"seconds to wait"}},"required":["action"]}`),
	}
}

type processArgs struct {
	Action        string
	ID            string
	Offset, Limit int
	Timeout       float64
}

// ReadOnly is true for all but kill.
func (Process) ReadOnly(raw json.RawMessage) bool {
	var args processArgs
	return decode(raw, &args) != nil || args.Action != "kill"
}

// Class says that an end is one.
func (Process) Class(json.RawMessage) Class { return ClassDestructive }

// Permission: a conversation may end what it began.
func (Process) Permission() Permission { return NeedsOwn }

// Run does what the action says.
func (p Process) Run(ctx context.Context, call Call) Result {
	var args processArgs
	if err := decode(call.Args, &args); err != nil {
		return Refuse("%v", err)
	}
	if args.Action == "list" {
		return Result{Content: p.list(call.Session), Effect: EffectNone}
	}
	c := p.terminal.background.find(call.Session, args.ID)
	if c == nil {
		return Refuse("there is no %q among the background commands of this conversation; they end with gatewayd. %s", args.ID, p.list(call.Session))
	}
	switch args.Action {
	case "poll":
		return p.poll(c)
	case "log":
		return p.log(c, args)
	case "wait":
		return p.wait(ctx, call, c, timeout(args.Timeout, waitUsual, waitMost))
	case "kill":
		return p.kill(ctx, c)
	case "write":
		return Refuse("the standard input of %s is closed, as that of every command, so nothing can be written to it. "+
			"Start it anew with its input in the command: printf '…' | COMMAND", c.handle)
	}
	return Refuse("there is no action %q; the actions are list, poll, log, wait and kill", args.Action)
}

func (p Process) list(session string) string {
	p.terminal.background.trim() // an end that was waited for may be counted a moment late
	mine := p.terminal.background.of(session)
	if len(mine) == 0 {
		return "[no background commands]"
	}
	var b strings.Builder
	for _, c := range mine {
		fmt.Fprintf(&b, "%s  %s  %s\n", c.handle, c.state(), oneLine(c.text, 100))
	}
	return b.String()
}

// state says in one line how it is.
func (c *command) state() string {
	if c.running() {
		return fmt.Sprintf("running, pid %d, for %v", c.process.Child().PID, time.Since(c.started).Round(time.Second))
	}
	words, _, _ := c.outcome(c.process.Record())
	return words
}

func (p Process) poll(c *command) Result {
	text, next := c.out.page(0, pollLines, clean)
	return Result{Content: withEnding(text, fmt.Sprintf("%s: %s; the next line is %d", c.handle, c.state(), next)), Effect: EffectNone}
}

func (p Process) log(c *command, args processArgs) Result {
	limit := logLines
	if args.Limit > 0 {
		limit = min(args.Limit, logMaxLines)
	}
	text, next := c.out.page(max(args.Offset, 1), limit, clean)
	return Result{Content: withEnding(text, fmt.Sprintf("%s: %s; go on with offset %d", c.handle, c.state(), next)), Effect: EffectNone}
}

func (p Process) wait(ctx context.Context, call Call, c *command, limit time.Duration) Result {
	beat, over := time.NewTicker(terminalHeartbeat), time.NewTimer(limit)
	defer beat.Stop()
	defer over.Stop()
	for {
		select {
		case <-c.done:
			return p.poll(c)
		case <-over.C:
			return p.poll(c)
		case <-ctx.Done():
			return Result{Content: fmt.Sprintf("[%s goes on; the wait was interrupted: %v]", c.handle, context.Cause(ctx)), Err: true, Effect: EffectNone, Interrupted: true}
		case <-beat.C:
			call.Progress()
		}
	}
}

func (p Process) kill(ctx context.Context, c *command) Result {
	if !c.running() {
		return Result{Content: fmt.Sprintf("[%s had ended already: %s]", c.handle, c.state()), Effect: EffectNone}
	}
	c.stop(whyKilled)
	over := time.NewTimer(stopLimit)
	defer over.Stop()
	select {
	case <-c.done:
		return Result{Content: fmt.Sprintf("[%s and everything it started is gone: %s]", c.handle, c.state()), Effect: EffectDone}
	case <-over.C:
	case <-ctx.Done():
	}
	return Result{Content: fmt.Sprintf("[%s was told to end and has not yet; poll says when it is gone]", c.handle), Err: true, Effect: EffectUnknown}
}
