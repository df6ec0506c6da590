package gateway

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

func TestEveryRequestBeginsWithTheOneBeforeOverRestarts(t *testing.T) {
	h := newHouse(t, with(echo("work")))
	var before []byte
	for n := range 6 {
		if n == 3 { // also when an answer was cut by a stop, and its turn was closed
			h.llm.Push(fakellm.Hang{})
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "is cut off"}, nil)
			}()
			wait(t, h.llm, len(h.llm.Requests())+1)
			h.stop()
			<-done
		}
		h.restart(with(echo("work")))
		h.llm.Push(fakellm.ToolCall{Name: "work", Args: fmt.Sprintf(`{"n":%d}`, n), Text: "let me \"see\""}, fakellm.Text{Text: fmt.Sprintf("answer <%d>", n)})
		r := h.say(Say{Text: fmt.Sprintf("question %d & more", n), Wire: fmt.Sprintf("[from Ann] question %d", n)})
		if n > 0 && (r.Prefix.Broken || r.Prefix.Equal == 0 || r.Prefix.Equal != r.Prefix.Bytes) {
			t.Errorf("turn %d: %+v", n, r.Prefix)
		}
	}
	for i, request := range h.llm.Requests() {
		messages := bytes.Join(rawMessages(t, request), []byte(","))
		if !bytes.HasPrefix(messages, before) {
			t.Errorf("request %d does not begin with the one before it:\n%s\n%s", i, before, messages)
		}
		before = messages
	}
	if h.Status().PrefixBreaks != 0 {
		t.Errorf("%+v", h.Status())
	}
}

func rawMessages(t *testing.T, r fakellm.Request) (out [][]byte) {
	t.Helper()
	for _, m := range sentMessages(t, r) {
		out = append(out, m)
	}
	return out
}

func TestABrokenPrefixNamesWhoBrokeIt(t *testing.T) {
	for name, c := range map[string]struct {
		break_ func(t *testing.T, h *house, rows []sessiondb.Message)
		change func(*Options)
		want   string
		part   string
	}{
		"rewind": {func(t *testing.T, h *house, _ []sessiondb.Message) {
			withLease(t, h, func(l sessiondb.Lease) error { _, err := h.store.RewindTurns(t.Context(), l, -1); return err })
		}, nil, CauseRewind, "message 3"},
		"a foreign edit": {func(t *testing.T, h *house, rows []sessiondb.Message) {
			text := "other words"
			withLease(t, h, func(l sessiondb.Lease) error {
				return h.store.Repair(t.Context(), l, []sessiondb.RowRepair{{ID: rows[1].ID, OldDigest: rows[1].Digest(), Content: &text}})
			})
		}, nil, CauseUnknown, "message 2"},
		"a withdrawn confirmation": {func(t *testing.T, h *house, rows []sessiondb.Message) {
			text := withdrawn
			withLease(t, h, func(l sessiondb.Lease) error {
				return h.store.Repair(t.Context(), l, []sessiondb.RowRepair{{ID: rows[2].ID, OldDigest: rows[2].Digest(), Wire: &text}})
			})
		}, nil, CauseRepair, "message 3"},
		"other tools": {nil, with(echo("another")), CauseTools, "tools"},
		"compaction":  {func(t *testing.T, h *house, rows []sessiondb.Message) { fold(t, h, rows) }, nil, CauseCompaction, "message 1"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, nil, fakellm.Text{Text: "one"}, fakellm.Text{Text: "two"}, fakellm.Text{Text: "three"}, fakellm.Text{Text: "four"})
			h.say(Say{Text: "first"})
			h.say(Say{Text: "second"})
			h.restart(c.change) // so that only what the store keeps is known
			if c.break_ != nil {
				c.break_(t, h, h.rows("s1"))
			}
			r := h.say(Say{Text: "third"})
			if p := r.Prefix; !p.Broken || p.Cause != c.want || p.Part != c.part || p.Equal >= p.Bytes {
				t.Errorf("%+v", p)
			}
			if again := h.say(Say{Text: "fourth"}); again.Prefix.Broken {
				t.Errorf("it is broken once: %+v", again.Prefix)
			}
		})
	}
}

func withLease(t *testing.T, h *house, do func(sessiondb.Lease) error) {
	t.Helper()
	holder, err := sessiondb.SelfHolder("test")
	if err != nil {
		t.Fatal(err)
	}
	l, err := h.store.TryTurn(soon(t), "s1", holder, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := do(l); err != nil {
		t.Fatal(err)
	}
	if err := h.store.Release(soon(t), l); err != nil {
		t.Fatal(err)
	}
}

// fold replaces everything but the last exchange by a summary.
func fold(t *testing.T, h *house, rows []sessiondb.Message) {
	t.Helper()
	holder, err := sessiondb.SelfHolder("test")
	if err != nil {
		t.Fatal(err)
	}
	l, err := h.store.AcquireCompaction(soon(t), "s1", holder, 0)
	if err != nil {
		t.Fatal(err)
	}
	plan := sessiondb.Compaction{Lease: l, Seen: sessiondb.See(rows), Rows: []sessiondb.CompactedRow{
		{New: sessiondb.NewMessage{Role: roleUser, Content: "a summary", Kind: sessiondb.KindSummary}},
		{New: sessiondb.NewMessage{Role: roleAssistant, Content: "understood", Kind: sessiondb.KindSummary}},
		{Keep: rows[2].ID},
		{Keep: rows[3].ID},
	}}
	if _, err := h.store.ArchiveAndCompact(soon(t), plan); err != nil {
		t.Fatal(err)
	}
	if err := h.store.Release(soon(t), l); err != nil {
		t.Fatal(err)
	}
}

func TestThePlaceOfTheFirstDifferenceIsExactWhereBothAreKnown(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "one"}, fakellm.Text{Text: "two"}, fakellm.Text{Text: "three"})
	h.say(Say{Text: "first"})
	first := h.rows("s1")
	text := "onX"
	withLease(t, h, func(l sessiondb.Lease) error {
		return h.store.Repair(t.Context(), l, []sessiondb.RowRepair{{ID: first[0].ID, OldDigest: first[0].Digest(), Content: &text}})
	})
	p := h.say(Say{Text: "second"}).Prefix
	// The system prompt, no tools, and of the first message its role with what ends it.
	if want := int64(len(DefaultSystemPrompt) + len("user\x00")); !p.Broken || p.Equal != want || p.Row != first[0].ID || !strings.HasPrefix(p.Part, "message 1") {
		t.Errorf("%+v, want %d", p, want)
	}
}
