package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
	"gatewayd/internal/problem"
	"gatewayd/internal/vigil"
)

// until waits for a condition by the gateway's own picture of itself.
func until(t *testing.T, h *house, what string, ok func(Status) bool) {
	t.Helper()
	if !vigil.Until(time.Minute, soon(t).Done(), func() bool { return ok(h.Status()) }) {
		t.Fatalf("%s: %+v", what, h.Status())
	}
}

func TestMessagesOfOneConversationAreAnsweredInTurnAndOthersAtOnce(t *testing.T) {
	gate := make(chan struct{})
	h := newHouse(t, nil, fakellm.Text{Text: "one", Gate: gate})
	var wg sync.WaitGroup
	order := make(chan string, 3)
	send := func(n int, session, text string) {
		wg.Go(func() { order <- text + "=" + h.say(Say{Session: session, Text: text}).Text })
		until(t, h, "message is in", func(s Status) bool { return s.Queued+len(s.Running) == n })
	}
	send(1, "s1", "first")
	if _, err := h.llm.Wait(soon(t), 1); err != nil {
		t.Fatal(err)
	}
	send(2, "s1", "second")
	h.llm.Push(fakellm.Text{Text: "other"}, fakellm.Text{Text: "two"})
	if got := h.say(Say{Session: "s2", Text: "elsewhere"}).Text; got != "other" {
		t.Errorf("the other conversation got %q", got)
	}
	close(gate)
	wg.Wait()
	if a, b := <-order, <-order; a != "first=one" || b != "second=two" {
		t.Errorf("%s, %s", a, b)
	}
	if got := shape(h.rows("s1")); got != "user assistant user assistant" {
		t.Error(got)
	}
	until(t, h, "idle conversations end", func(s Status) bool { return s.Conversations == 0 && s.Turns == 3 })
}

func TestManyMessagesAtOnceNeverMakeTwoTurnsOfOneConversation(t *testing.T) {
	h := newHouse(t, nil)
	h.llm.Close()
	h.llm = fakellm.Start(fakellm.Options{Each: func(r fakellm.Request) fakellm.Response { return fakellm.Text{Text: "ok"} }})
	t.Cleanup(h.llm.Close)
	h.stop()
	h.start(func(o *Options) { o.Mailbox = 100 })
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() { h.say(Say{Key: fmt.Sprintf("key%d", i%3), Text: fmt.Sprintf("message %d", i)}) })
	}
	wg.Wait()
	all := 0
	for i := range 3 {
		session, err := h.store.SessionByKey(t.Context(), fmt.Sprintf("key%d", i))
		if err != nil {
			t.Fatal(err)
		}
		rows := h.rows(session.ID)
		all += len(rows)
		for j, row := range rows {
			if row.Role != []string{roleUser, roleAssistant}[j%2] || (j%2 == 1 && row.TurnID != rows[j-1].TurnID) {
				t.Fatalf("row %d of %s: %s", j, session.ID, shape(rows))
			}
		}
	}
	if all != 120 {
		t.Errorf("%d rows, want 120", all)
	}
}

func TestAFullMailboxIsSaidAndStoresNothing(t *testing.T) {
	gate := make(chan struct{})
	h := newHouse(t, func(o *Options) { o.Mailbox = 1 }, fakellm.Text{Text: "one", Gate: gate}, fakellm.Text{Text: "two"})
	var wg sync.WaitGroup
	wg.Go(func() { h.say(Say{Text: "runs"}) })
	until(t, h, "running", func(s Status) bool { return len(s.Running) == 1 })
	wg.Go(func() { h.say(Say{Text: "waits"}) })
	until(t, h, "waiting", func(s Status) bool { return s.Queued == 1 })
	_, err := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "too much"}, nil)
	if !problem.Is(err, problem.Busy) {
		t.Errorf("%v", err)
	}
	close(gate)
	wg.Wait()
	if got := shape(h.rows("s1")); got != "user assistant user assistant" {
		t.Error(got)
	}
}

func TestARedirectEndsTheRunningTurnAndGoesFirst(t *testing.T) {
	gate := make(chan struct{})
	h := newHouse(t, nil, fakellm.Text{Text: "visible and more", ChunkChars: 8, Gate: gate}, fakellm.Text{Text: "two"}, fakellm.Text{Text: "three"})
	var wg sync.WaitGroup
	shown := make(chan struct{}, 8)
	wg.Go(func() {
		r, err := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "first"}, func(e Event) {
			if e.Kind == EventDelta {
				shown <- struct{}{}
			}
		})
		if err != nil || r.ExitReason != "interrupted(redirect)" || r.Text != "visible " {
			t.Errorf("%+v, %v", r, err)
		}
	})
	gate <- struct{}{}
	<-shown
	wg.Go(func() { h.say(Say{Text: "waited before"}) })
	until(t, h, "waiting", func(s Status) bool { return s.Queued == 1 })
	wg.Go(func() { h.say(Say{Text: "no, this", Mode: ModeRedirect}) })
	wg.Wait()
	var texts []string
	for _, row := range h.rows("s1") {
		texts = append(texts, row.Content)
	}
	if want := []string{"first", "visible ", "no, this", "two", "waited before", "three"}; !slices.Equal(texts, want) {
		t.Errorf("%q", texts)
	}
}

func TestAMessageWhoseCallerLeftWhileItWaitedIsNeverStored(t *testing.T) {
	gate := make(chan struct{})
	h := newHouse(t, nil, fakellm.Text{Text: "one", Gate: gate})
	var wg sync.WaitGroup
	wg.Go(func() { h.say(Say{Text: "runs"}) })
	until(t, h, "running", func(s Status) bool { return len(s.Running) == 1 })
	ctx, leave := context.WithCancel(soon(t))
	wg.Go(func() {
		if _, err := h.Say(ctx, Say{Session: "s1", Source: SourceAPI, Text: "waits"}, nil); !problem.Is(err, problem.Interrupted) {
			t.Errorf("%v", err)
		}
	})
	until(t, h, "waiting", func(s Status) bool { return s.Queued == 1 })
	leave()
	until(t, h, "withdrawn", func(s Status) bool { return s.Queued == 0 })
	close(gate)
	wg.Wait()
	if got := shape(h.rows("s1")); got != "user assistant" {
		t.Error(got)
	}
}

func TestDrainRefusesNewMessagesGivesGraceAndThenInterrupts(t *testing.T) {
	for name, c := range map[string]struct {
		grace time.Duration
		rows  string
		exit  string
	}{
		"in time": {time.Minute, "user assistant", "text_response"},
		"late":    {-1, "user assistant/closing", "interrupted(drain)"},
	} {
		t.Run(name, func(t *testing.T) {
			gate := make(chan struct{})
			h := newHouse(t, func(o *Options) { o.Grace = c.grace }, fakellm.Text{Text: "one", Gate: gate})
			results := make(chan Result, 1)
			go func() { results <- h.say(Say{Text: "runs"}) }()
			if _, err := h.llm.Wait(soon(t), 1); err != nil {
				t.Fatal(err)
			}
			waiting := make(chan error, 1)
			go func() {
				_, err := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "waits"}, nil)
				waiting <- err
			}()
			until(t, h, "waiting", func(s Status) bool { return s.Queued == 1 })
			stopped := make(chan struct{})
			go func() { defer close(stopped); h.stop() }()
			if err := <-waiting; !problem.Is(err, problem.Unavailable) {
				t.Errorf("the waiting message got %v", err)
			}
			until(t, h, "draining", func(s Status) bool { return s.Draining })
			if _, err := h.Say(soon(t), Say{Session: "s2", Source: SourceAPI, Text: "new"}, nil); !problem.Is(err, problem.Unavailable) {
				t.Errorf("a new message got %v", err)
			}
			if c.grace > 0 {
				close(gate)
			}
			if r := <-results; r.ExitReason != c.exit {
				t.Errorf("%+v", r)
			}
			<-stopped
			if got := shape(h.rows("s1")); got != c.rows {
				t.Error(got)
			}
		})
	}
}

func TestTheHistoryAClientBringsIsStoredOnceAndRowsWin(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "three"}, fakellm.Text{Text: "five"})
	history := Replay(transcript("user one", "assistant two"))
	h.say(Say{Key: "k", System: "be kind", Text: "and?", History: history})
	h.say(Say{Key: "k", System: "be rude", Text: "more?", History: Replay(transcript("user other", "assistant lies", "user x", "assistant y"))})
	session, err := h.store.SessionByKey(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if got := shape(h.rows(session.ID)); got != "user/history assistant/history user assistant user assistant" {
		t.Error(got)
	}
	requests := h.llm.Requests()
	second := string(requests[1].Body)
	if strings.Contains(second, "lies") || strings.Contains(second, "be rude") || !strings.Contains(second, "be kind") || !strings.Contains(second, "two") {
		t.Errorf("second request: %s", second)
	}
}

func TestAnEmptyMessageIsRefused(t *testing.T) {
	h := newHouse(t, nil)
	if _, err := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI}, nil); !problem.Is(err, problem.Invalid) {
		t.Error(err)
	}
}

func TestPlainTextWaitsForACompaction(t *testing.T) {
	gate := make(chan struct{})
	h := newHouse(t, nil, fakellm.Text{Text: "one", Gate: gate}, fakellm.Text{Text: "two"})
	done := make(chan Result, 1)
	go func() { done <- h.say(Say{Text: "first"}) }()
	wait(t, h.llm, 1)
	h.mu.Lock()
	h.conversations["s1"].turn.phase.Store(PhaseCompact)
	h.mu.Unlock()
	h.post(Say{Text: "not that", Mode: ModeRedirect})
	until(t, h, "waiting", func(s Status) bool { return s.Queued == 1 })
	close(gate)
	if r := <-done; !r.Completed || r.Text != "one" {
		t.Errorf("a compaction was ended by a word: %+v", r)
	}
	until(t, h, "answered", func(s Status) bool { return s.Turns == 2 && s.Conversations == 0 })
}
