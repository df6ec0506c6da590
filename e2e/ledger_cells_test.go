package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"gatewayd/internal/fakellm"
)

func ledgerCells() []cell {
	return []cell{
		{name: "plain", model: talks, steps: func(l *ledger) { l.asks(3) }},
		{name: "tool_batches", model: batches, steps: func(l *ledger) { l.asks(3) }},
		{name: "stream_faults", model: breaksOff(), steps: func(l *ledger) { l.asks(3) }},
		{name: "steer", model: patientTool, steps: (*ledger).steered},
		{name: "interrupt", model: stalls(), steps: (*ledger).interrupted},
		{name: "manual_compress", knobs: small, model: longWinded, folded: true, absorbs: true, steps: func(l *ledger) { l.asks(6); l.compress("/compress"); l.asks(2) }},
		{name: "compress_here", knobs: small, model: longWinded, folded: true, absorbs: true, steps: func(l *ledger) { l.asks(6); l.compress("/compress here 2"); l.asks(2) }},
		{name: "auto_compaction", knobs: small, model: fillsUp, folded: true, absorbs: true, steps: func(l *ledger) { l.asks(8) }},
		{name: "micro_compaction", knobs: rolling, model: longWinded, folded: true, steps: func(l *ledger) { l.asks(6) }},
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

// small is a model with a small window, of which little is kept word for word.
func small(k *knobs) {
	k.window = 64_000
	k.more = "compression: {protect_last_n: 4, tail_mode: legacy, target_ratio: 0.1}\n"
}

// rolling folds an exchange away after each turn.
func rolling(k *knobs) {
	small(k)
	k.more = "compression: {protect_last_n: 4, tail_mode: legacy, target_ratio: 0.1, micro_compact: true}\n"
}

// longWinded is a model that says much.
func longWinded(r fakellm.Request) fakellm.Response {
	return fakellm.Text{Text: "Long answer to " + lastUser(r) + ": " + filler, ChunkChars: 2_000, Usage: fakellm.Usage{Prompt: int64(len(r.Body)) / 4, Completion: 3_000}}
}

// fillsUp is one whose window is full after the sixth question, until it is shown a summary.
func fillsUp(r fakellm.Request) fakellm.Response {
	answer := longWinded(r).(fakellm.Text)
	if sent := messagesOf(r); countIn(sent, "question5") > 0 && countIn(sent, summaryText) == 0 {
		answer.Usage.Prompt = 60_000
	}
	return answer
}

// compress folds by hand.
func (l *ledger) compress(line string) {
	l.t.Helper()
	l.slash(booked, line)
}

const goFile = "go-on"

// patientTool is a model whose tool waits for a file in its directory.
func patientTool(r fakellm.Request) fakellm.Response {
	sent := messagesOf(r)
	if last := sent[len(sent)-1]; last.Role == "user" && strings.HasPrefix(last.Content, "wait") {
		return run("while [ ! -e " + goFile + " ]; do sleep 0.02; done; echo waited")
	}
	return fakellm.Text{Text: "Heard " + lastUser(r) + "."}
}

// steered says something into a turn whose tool runs. It is a row of its own behind the tool's.
func (l *ledger) steered() {
	l.t.Helper()
	l.said = append(l.said, "wait for me", "mind the gap")
	turn := l.begin(booked, "wait for me")
	l.await(1)
	l.until("the command runs", func() bool { return len(commands(l.t, l.home)) > 0 })
	l.handOver(booked, "mind the gap", "steer")
	if err := os.WriteFile(filepath.Join(l.home, "workspace", goFile), nil, 0o600); err != nil {
		l.t.Fatal(err)
	}
	h := <-turn
	l.shown["wait for me"] = h.text
	if !strings.Contains(h.text, "Heard mind the gap") {
		l.t.Errorf("the turn goes on with %q, %q", h.text, h.why)
	}
	l.asks(1)
}

// stalls is a model whose first answer stands still after some words.
func stalls() func(fakellm.Request) fakellm.Response {
	var n atomic.Int64
	return func(r fakellm.Request) fakellm.Response {
		if n.Add(1) == 1 {
			return fakellm.StallMidStream{Text: "A few words, and then no more for a long time", After: 3}
		}
		return talks(r)
	}
}

// interrupted stops an answer whose beginning was seen.
func (l *ledger) interrupted() {
	l.t.Helper()
	const text = "tell me something"
	l.said = append(l.said, text)
	seen := make(chan struct{})
	var once sync.Once
	turn := make(chan heard, 1)
	go func() {
		turn <- l.hear(l.t.Context(), booked, text, func(p part) {
			if p.kind == "text" {
				once.Do(func() { close(seen) })
			}
		})
	}()
	<-seen
	l.slash(booked, "/stop")
	l.shown[text] = (<-turn).text
	if !strings.HasPrefix(l.shown[text], "A few") {
		l.t.Errorf("what was seen is gone: %q", l.shown[text])
	}
	l.asks(1)
}
