package e2e

import (
	"strings"
	"sync/atomic"

	"gatewayd/internal/fakellm"
)

func ledgerCells() []cell {
	return []cell{
		{name: "plain", model: talks, steps: func(l *ledger) { l.asks(3) }},
		{name: "tool_batches", model: batches, steps: func(l *ledger) { l.asks(3) }},
		{name: "stream_faults", model: breaksOff(), steps: func(l *ledger) { l.asks(3) }},
	}
}

// talks is a model that answers in words.
func talks(r fakellm.Request) fakellm.Response {
	return fakellm.Text{Text: "Said to " + lastUser(r) + "."}
}

// batches is a model that uses its tools in two rounds, of three calls and of one.
func batches(r fakellm.Request) fakellm.Response {
	sent, results := messagesOf(r), 0
	for _, m := range sent {
		if m.Role == "tool" {
			results++
		} else if m.Role == "user" {
			results = 0
		}
	}
	switch results {
	case 0:
		call := run("echo one")
		call.Text = "Let me look."
		call.Parallel = []fakellm.ToolCall{run("echo two; exit 3"), run("echo three")}
		return call
	case 3:
		return run("echo four")
	}
	return fakellm.Text{Text: "Looked for " + lastUser(r) + "."}
}

// breaksOff is a model whose every second answer breaks off in the middle, in words or in a call, and is asked to go on.
func breaksOff() func(fakellm.Request) fakellm.Response {
	var n atomic.Int64
	return func(r fakellm.Request) fakellm.Response {
		switch sent := messagesOf(r); {
		case sent[len(sent)-1].Role == "tool":
			return fakellm.Text{Text: "Done at last."}
		case strings.Contains(lastUser(r), "Continue"):
			return fakellm.Text{Text: "and here is the end of it."}
		}
		switch n.Add(1) {
		case 1:
			return fakellm.DropMidStream{Text: "The beginning of an answer, and the rest", After: 3}
		case 2:
			call := run("echo cut off")
			return fakellm.DropMidStream{Call: &call, After: 2}
		}
		return run("echo whole")
	}
}
