package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// TestTheCauseDecidesWhatIsWritten ends a turn by each cause, while the model streams and while a tool runs.
func TestTheCauseDecidesWhatIsWritten(t *testing.T) {
	for _, c := range []struct {
		cause  Cause
		stream string // rows after an interrupt of the stream
		row    string // the last row's text there
		tool   string // rows after an interrupt of a tool
		exit   string
	}{
		{Stop, "user assistant/closing", "partly \n\n" + Stop.note(), "user assistant+2 tool/interrupted tool/interrupted assistant/closing", "interrupted(stop)"},
		{Redirect, "user assistant/checkpoint", "partly ", "user assistant+2 tool/interrupted tool/interrupted assistant/closing", "interrupted(redirect)"},
		{ClientGone, "user assistant/closing", "partly \n\n" + ClientGone.note(), "user assistant+2 tool/interrupted tool/interrupted assistant/closing", "interrupted(client_gone)"},
		{Drain, "user assistant/closing", "partly \n\n" + Drain.note(), "user assistant+2 tool/interrupted tool/interrupted assistant/closing", "interrupted(drain)"},
		{Stall, "user assistant/closing", "partly \n\n" + Stall.note(), "user assistant+2 tool/interrupted tool/interrupted assistant/closing", "interrupted(stall)"},
		{LeaseLost, "user", "hello", "user assistant+2", "interrupted(lease_lost)"},
	} {
		t.Run(c.cause.name(), func(t *testing.T) {
			t.Run("stream", func(t *testing.T) { interruptStream(t, c.cause, c.stream, c.row, c.exit) })
			t.Run("tool", func(t *testing.T) { interruptTool(t, c.cause, c.tool, c.exit) })
		})
	}
}

// end ends the turn of s1 the way the cause does in life.
func end(t *testing.T, h *house, cause Cause, leave context.CancelFunc) {
	t.Helper()
	switch cause {
	case ClientGone:
		leave()
	case LeaseLost:
		steal(t, h.store, "s1")
		if !h.Interrupt("s1", cause) {
			t.Error("no turn to interrupt")
		}
	default:
		if !h.Interrupt("s1", cause) {
			t.Error("no turn to interrupt")
		}
	}
}

// steal takes the turn lease of a session from its holder, as another process does whose clock says that it ran out.
func steal(t *testing.T, store *sessiondb.Store, session string) {
	t.Helper()
	leases, err := store.Leases(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases {
		if l.Session == session {
			if err := store.Break(soon(t), l); err != nil {
				t.Fatal(err)
			}
		}
	}
	holder, err := sessiondb.SelfHolder("thief")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.TryTurn(soon(t), session, holder, time.Hour); err != nil {
		t.Fatal(err)
	}
}

func interruptStream(t *testing.T, cause Cause, rows, last, exit string) {
	gate := make(chan struct{})
	h := newHouse(t, nil, fakellm.Text{Text: "partly never comes", ChunkChars: 7, Gate: gate})
	ctx, leave := context.WithCancel(soon(t))
	defer leave()
	shown := make(chan struct{}, 16)
	go func() { gate <- struct{}{}; <-shown; end(t, h, cause, leave) }()
	r, err := h.Say(ctx, Say{Session: "s1", Source: SourceAPI, Text: "hello"}, func(e Event) {
		if e.Kind == EventDelta {
			shown <- struct{}{}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	checkInterrupted(t, h, r, cause, rows, exit)
	if stored := h.rows("s1"); stored[len(stored)-1].Content != last {
		t.Errorf("last row %q, want %q", stored[len(stored)-1].Content, last)
	}
	if cause != LeaseLost && !strings.Contains(r.Text, "partly") {
		t.Errorf("text that was shown vanished: %q", r.Text)
	}
}

func interruptTool(t *testing.T, cause Cause, rows, exit string) {
	running := make(chan struct{}, 2)
	halfway := func(ctx context.Context, _ tool.Call) tool.Result {
		running <- struct{}{}
		<-ctx.Done()
		return tool.Result{Content: "half done", Err: true, Effect: tool.EffectUnknown, Interrupted: true}
	}
	slow, hold := fake{name: "slow", run: halfway}, fake{name: "hold", run: halfway}
	h := newHouse(t, with(slow, hold), fakellm.ToolCall{Name: "slow", Parallel: []fakellm.ToolCall{{Name: "hold"}}})
	ctx, leave := context.WithCancel(soon(t))
	defer leave()
	go func() { <-running; <-running; end(t, h, cause, leave) }()
	r, err := h.Say(ctx, Say{Session: "s1", Source: SourceAPI, Text: "hello"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkInterrupted(t, h, r, cause, rows, exit)
	for _, row := range h.rows("s1") {
		if row.Role == roleTool && row.Effect != "unknown" {
			t.Errorf("effect %q of a call that was cut short", row.Effect)
		}
	}
	if n := len(h.llm.Requests()); n != 1 {
		t.Errorf("%d requests after an interrupt", n)
	}
}

func checkInterrupted(t *testing.T, h *house, r Result, cause Cause, rows, exit string) {
	t.Helper()
	if got := shape(h.rows("s1")); got != rows {
		t.Errorf("rows: %s, want %s", got, rows)
	}
	if r.Completed || r.Failed || !r.Interrupted || r.Text == "" || r.ExitReason != exit {
		t.Errorf("%+v", r)
	}
	if cause != LeaseLost {
		assertWhole(t, h.rows("s1"))
	}
}

func TestALostLeaseEndsTheTurnAndNothingMoreIsWritten(t *testing.T) {
	h := newHouse(t, func(o *Options) { o.LeaseTTL = 30 * time.Millisecond }, fakellm.Hang{})
	h.spy.renew = func() error {
		if len(h.llm.Requests()) == 0 {
			return nil
		}
		return &problem.Error{Kind: problem.Conflict, Thing: "session s1", What: "is no longer held", Err: sessiondb.ErrLeaseLost}
	}
	r := h.say(Say{Text: "hello"})
	if !r.Interrupted || r.ExitReason != "interrupted(lease_lost)" || shape(h.rows("s1")) != "user" {
		t.Errorf("%+v, rows %s", r, shape(h.rows("s1")))
	}
}

func TestALeaseThatCannotBeRenewedIsKeptUntilItRanOut(t *testing.T) {
	h := newHouse(t, func(o *Options) { o.LeaseTTL = 30 * time.Millisecond }, fakellm.Hang{})
	begin, tries := time.Now(), 0
	h.spy.renew = func() error {
		if len(h.llm.Requests()) == 0 {
			return nil
		}
		tries++
		return errors.New("database is busy")
	}
	r := h.say(Say{Text: "hello"})
	if took := time.Since(begin); r.ExitReason != "interrupted(lease_lost)" || tries == 0 || took < 30*time.Millisecond {
		t.Errorf("after %v and %d tries: %s", took, tries, r.ExitReason)
	}
}

func TestATurnWithoutSignsOfLifeIsEnded(t *testing.T) {
	h := newHouse(t, func(o *Options) { o.StallTimeout = 500 * time.Millisecond }, fakellm.Hang{})
	r := h.say(Say{Text: "hello"})
	if r.ExitReason != "interrupted(stall)" || shape(h.rows("s1")) != "user assistant/closing" {
		t.Errorf("%+v, rows %s", r, shape(h.rows("s1")))
	}
}

func TestSignsOfLifePostponeTheStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stalled := newProgress(), make(chan time.Duration, 1)
		begin := time.Now()
		go p.watch(t.Context(), time.Minute, func() { stalled <- time.Since(begin) })
		for range 5 {
			time.Sleep(50 * time.Second) // fake time: it passes when everybody waits
			p.touch()
		}
		if at := <-stalled; at != 310*time.Second {
			t.Errorf("stalled after %v, want a minute after the last sign of life", at)
		}
	})
}

func TestAnAnswerThatArrivedIsStoredThoughTheCallerLeft(t *testing.T) {
	var h *house
	ctx, leave := context.WithCancel(soon(t))
	h = newHouse(t, nil, fakellm.Text{Text: "done"})
	h.spy.refuse = func(rows []sessiondb.NewMessage) error {
		if rows[0].Role == roleAssistant {
			leave()
		}
		return nil
	}
	r, err := h.Say(ctx, Say{Session: "s1", Source: SourceAPI, Text: "hello"}, nil)
	if err != nil || !r.Completed || shape(h.rows("s1")) != "user assistant" {
		t.Errorf("%+v, %v, rows %s", r, err, shape(h.rows("s1")))
	}
}
