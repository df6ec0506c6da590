package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

// Whatever a model makes of its tools, and a tool of itself, the turn ends in time and in words, nothing runs that was not asked for
// in full, and nothing goes on running.
func TestATurnEndsInWordsWhateverItsToolsDo(t *testing.T) {
	t.Parallel()
	together(t, toolPlays(), func(p play) string { return p.name }, perform)
}

// run is a call of the terminal.
func run(command string, more ...any) fakellm.ToolCall {
	args := map[string]any{"command": command}
	for i := 0; i+1 < len(more); i += 2 {
		args[more[i].(string)] = more[i+1]
	}
	return fakellm.ToolCall{Name: "terminal", Args: args}
}

// oneTool calls a tool once and then answers.
func oneTool(call fakellm.ToolCall) func(int, fakellm.Request) fakellm.Response {
	return first(call, fakellm.Text{Text: "That is what came of it."})
}

func toolPlays() []play {
	tight := hasty()
	tight.iterations = 4
	long := hasty()
	long.command = 600 * time.Second
	touch := "touch executed"
	return []play{
		{name: "tool_args_truncated_json", knobs: hasty(), fault: always(fakellm.ToolCall{Name: "terminal", Args: `{"command": "` + touch}), want: ended, least: 1, most: 6, after: neverRan},
		{name: "tool_args_garbage", knobs: hasty(), fault: always(fakellm.ToolCall{Name: "terminal", Args: touch + " ]]"}), want: ended, least: 1, most: 6, after: neverRan},
		{name: "tool_name_unknown", knobs: hasty(), fault: oneTool(fakellm.ToolCall{Name: "no_such_tool", Args: map[string]any{"x": 1}}), want: answered, least: 2, most: 6, after: resultSays("terminal")},
		{name: "parallel_8_terminal_calls", knobs: hasty(), fault: oneTool(eightEchoes()), want: answered, least: 2, most: 4, after: eachToken},
		{name: "tool_hang_past_timeout", knobs: hasty(), fault: oneTool(run("sleep 3600")), want: answered, least: 2, most: 4, between: nothingRuns, after: resultSays("timeout")},
		{name: "tool_reads_stdin", knobs: long, fault: oneTool(run("cat; echo after-stdin")), want: answered, least: 2, most: 4, after: resultSays("after-stdin")},
		{name: "tool_background_swarm", knobs: hasty(), fault: oneTool(run(swarm, "background", true)), want: answered, least: 2, most: 4, after: hasHandle},
		{name: "tool_background_spawns_while_killed", knobs: hasty(), fault: oneTool(run(hydra, "background", true)), want: answered, least: 2, most: 4, after: hasHandle},
		{name: "tool_huge_output", knobs: long, fault: oneTool(run("head -c 30000000 /dev/zero | tr '\\0' A")), want: answered, least: 2, most: 4, after: bounded},
		{name: "tool_loop_hits_turn_budget", knobs: tight, fault: endless, want: ended, least: 4, most: 6},
	}
}

const (
	swarm = "for i in 1 2 3 4 5 6 7 8; do sleep 3600 & done; setsid sleep 3600 & wait"
	hydra = "trap 'for i in 1 2 3 4; do sleep 3600 & done' TERM; while :; do sleep 3600; done"
)

// endless asks for one thing after another.
func endless(n int, _ fakellm.Request) fakellm.Response { return run(fmt.Sprintf("echo round %d", n)) }

func eightEchoes() fakellm.ToolCall {
	call := run("echo token-0-of-8")
	for i := 1; i < 8; i++ {
		call.Parallel = append(call.Parallel, run(fmt.Sprintf("echo token-%d-of-8", i)))
	}
	return call
}

// eachToken demands that every call has its own result, in the rows and in what the model was sent.
func eachToken(p *playing) {
	stored, sent := map[string]string{}, map[string]string{}
	for _, row := range toolRows(p.rows) {
		stored[row.ToolCallID] = row.Content
	}
	for _, m := range messagesOf(p.calls[len(p.calls)-1]) {
		if m.Role == "tool" {
			sent[m.ToolCallID] = m.Content
		}
	}
	for i := range 8 {
		id, token := fmt.Sprintf("call_fake_%d", i+1), fmt.Sprintf("token-%d-of-8", i)
		if !strings.HasPrefix(stored[id], token) || !strings.HasPrefix(sent[id], token) || strings.Count(stored[id], "token-") != 1 {
			p.t.Errorf("the result of %s is stored as %q and sent as %q", id, stored[id], sent[id])
		}
	}
}

func toolRows(rows []sessiondb.Message) (out []sessiondb.Message) {
	for _, row := range rows {
		if row.Role == "tool" {
			out = append(out, row)
		}
	}
	return out
}

// neverRan demands that nothing was done of what arrived in pieces, and that the model was told so.
func neverRan(p *playing) {
	found, err := filepath.Glob(filepath.Join(p.home, "workspace", "*"))
	if err != nil || len(found) > 0 {
		p.t.Errorf("something ran: %q, %v", found, err)
	}
	if _, err := os.Stat(filepath.Join(p.home, "executed")); err == nil {
		p.t.Error("it ran in the home")
	}
	for _, row := range toolRows(p.rows) {
		if !strings.Contains(row.Content, "JSON object") && !strings.Contains(row.Content, "cut off") {
			p.t.Errorf("a call that cannot be read is answered with %q", row.Content)
		}
	}
}

// resultSays demands words in every result.
func resultSays(word string) func(*playing) {
	return func(p *playing) {
		results := toolRows(p.rows)
		for _, row := range results {
			if !strings.Contains(row.Content, word) {
				p.t.Errorf("the result %q does not say %q", row.Content, word)
			}
		}
		if len(results) == 0 {
			p.t.Error("there is no result")
		}
	}
}

// nothingRuns demands that what was ended is gone before the next turn begins.
func nothingRuns(p *playing) {
	if pids := commands(p.t, p.home); len(pids) > 0 {
		p.t.Errorf("commands that were stopped still run: %v", pids)
	}
}

// hasHandle demands that a command in the background told its handle and its pid.
func hasHandle(p *playing) {
	for _, row := range toolRows(p.rows) {
		if !strings.Contains(row.Content, "proc_") || !strings.Contains(row.Content, "pid") {
			p.t.Errorf("a command in the background is answered with %q", row.Content)
		}
	}
}

// bounded demands that thirty megabytes became a row and a request of a size that can be used.
func bounded(p *playing) {
	for _, row := range toolRows(p.rows) {
		if n := len(row.Content); n > 1_000_000 || n < 1_000 {
			p.t.Errorf("thirty megabytes became a row of %d", n)
		}
	}
	for _, r := range p.model.Requests() {
		if len(r.Body) > 2_000_000 {
			p.t.Errorf("request %d has %d bytes", r.N, len(r.Body))
		}
	}
}
