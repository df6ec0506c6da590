package provider

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatewayd/internal/fakellm"
)

func TestARefusedKeyIsReadAnewOnce(t *testing.T) {
	for name, c := range map[string]struct {
		file  string
		calls int
		ok    bool
	}{
		"it was changed":        {"sk-new", 2, true},
		"it is the same":        {"sk-very-secret-key", 1, false},
		"it is gone":            {"", 1, false},
		"the new one is no use": {"sk-worse", 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := fakellm.Start(fakellm.Options{Each: func(r fakellm.Request) fakellm.Response {
				if r.Key != "sk-new" {
					return fakellm.Error{Status: 401, Message: "Incorrect API key provided: " + r.Key}
				}
				return fakellm.Text{Text: "ok"}
			}})
			t.Cleanup(server.Close)
			client, _ := clientOf(t, server, func(o *Options) { o.Refresh = func() string { return c.file + "\n" } })
			_, err := client.Complete(bounded(t), ask, nil)
			if (err == nil) != c.ok || len(server.Requests()) != c.calls {
				t.Errorf("%v after %d calls, want %d", err, len(server.Requests()), c.calls)
			}
			if err != nil && (strings.Contains(err.Error(), "sk-worse") || strings.Contains(err.Error(), "secret")) {
				t.Errorf("a key in %v", err)
			}
			if _, err = client.Complete(bounded(t), ask, nil); c.ok && (err != nil || len(server.Requests()) != c.calls+1) {
				t.Errorf("the new key is not kept: %v after %d calls", err, len(server.Requests()))
			}
		})
	}
}

// The last attempt goes over new connections: what hangs in the old ones cannot spoil it. None are added for it.
func TestTheLastAttemptGoesOverNewConnections(t *testing.T) {
	server := fakellm.New(t, fakellm.Error{Status: 500}, fakellm.Error{Status: 500}, fakellm.Error{Status: 500}, fakellm.Text{Text: "ok"})
	client, _ := clientOf(t, server)
	if _, err := client.Complete(bounded(t), ask, nil); err != nil {
		t.Fatal(err)
	}
	var from []string
	for _, r := range server.Requests() {
		from = append(from, r.Remote)
	}
	if len(from) != 4 || from[0] != from[2] || from[3] == from[2] {
		t.Errorf("connections %v", from)
	}
}

func TestEveryNumberOfRetriesIsWhatItSays(t *testing.T) {
	for retries := range 4 {
		server := fakellm.Start(fakellm.Options{Each: func(fakellm.Request) fakellm.Response { return fakellm.Error{Status: 500, Message: "ill"} }})
		t.Cleanup(server.Close)
		client, w := clientOf(t, server, func(o *Options) { o.MaxRetries = retries })
		_, err := client.Complete(bounded(t), ask, nil)
		failed, _ := errors.AsType[*Error](err)
		if failed == nil || len(server.Requests()) != retries+1 || failed.Attempts != retries+1 || len(w.list) != retries || !strings.Contains(err.Error(), "ill") {
			t.Errorf("%d retries: %v after %d calls and %d waits", retries, err, len(server.Requests()), len(w.list))
		}
	}
}

func TestAnInterruptGoesBeforeEveryRetry(t *testing.T) {
	stopped := errors.New("stop")
	ctx, cancel := context.WithCancelCause(bounded(t))
	server := fakellm.Start(fakellm.Options{Each: func(fakellm.Request) fakellm.Response {
		cancel(stopped)
		return fakellm.Error{Status: 429, RetryAfter: "600"}
	}})
	t.Cleanup(server.Close)
	client, _ := clientOf(t, server)
	_, err := client.Complete(ctx, ask, nil)
	if failed, ok := errors.AsType[*Error](err); !ok || failed.Class != Interrupted || !errors.Is(err, stopped) || len(server.Requests()) != 1 {
		t.Errorf("%v after %d calls", err, len(server.Requests()))
	}
}

func TestARetryAfterHoldsEverybodyAtTheGate(t *testing.T) {
	gate := NewGate("k", Limits{})
	server := fakellm.New(t, fakellm.Error{Status: 429, RetryAfter: "30"})
	client, _ := clientOf(t, server, func(o *Options) { o.Gate, o.MaxRetries = gate, 0 })
	if _, err := client.Complete(bounded(t), ask, nil); err == nil {
		t.Fatal("answered")
	}
	s := client.Stats()[0].Gate
	if left := time.Until(s.HeldUntil); left < 20*time.Second || left > 30*time.Second || s.Inside != 0 || s.Through != 1 {
		t.Errorf("%+v", s)
	}
}

func TestAnOverflowWithoutANumberStepsTheWindowDown(t *testing.T) {
	client, _ := clientOf(t, fakellm.New(t, fakellm.Error{Status: 400, Message: "prompt is too long"}, fakellm.Error{Status: 400, Message: "prompt is too long"}), func(o *Options) { o.ContextLength = 100_000 })
	long := Request{Messages: []Message{{Role: "user", Content: strings.Repeat("word ", 60_000)}}}
	for _, want := range []int{64_000, 32_000} {
		_, _ = client.Complete(bounded(t), long, nil)
		if d := client.Describe(); d.ContextLength != want || d.WindowFrom != windowGuessed {
			t.Errorf("%d (%s), want %d", d.ContextLength, d.WindowFrom, want)
		}
	}
}

func TestWhatAServerTaughtOutlivesTheProcess(t *testing.T) {
	home := t.TempDir()
	overflow := fakellm.Error{Status: 400, Message: "maximum context length is 4096 tokens"}
	server := fakellm.New(t, fakellm.Text{Text: "ok", Usage: fakellm.Usage{Prompt: 5000, Completion: 1}}, overflow)
	fresh := func() *client {
		memory := NewMemory(home, nil)
		c, _ := clientOf(t, server, func(o *Options) {
			o.Learned, o.Remember = memory.Of(server.URL(), fakellm.Model), memory.Keep(server.URL(), fakellm.Model)
		})
		return c
	}
	first := fresh()
	if _, err := first.Complete(bounded(t), ask, nil); err != nil {
		t.Fatal(err)
	}
	_, _ = first.Complete(bounded(t), ask, nil)
	second := fresh()
	d := second.Describe()
	if d.ContextLength != 4096 || d.WindowFrom != windowRefused || second.Stats()[0].PrefillRate == 0 || !strings.Contains(d.Timeouts, "tokens a second") {
		t.Errorf("%+v, %+v", d, second.Stats())
	}
	if found, _ := filepath.Glob(filepath.Join(home, "*")); len(found) != 1 {
		t.Errorf("left behind: %v", found)
	}
	NewMemory(filepath.Join(home, "missing"), nil).Keep("http://x/v1", "m")(Learned{Window: 1}) // is logged and no failure
	if got := NewMemory(home, nil).Of("http://user:secret@other/v1?k=secret", "m"); !reflect.DeepEqual(got, Learned{}) {
		t.Errorf("%+v", got)
	}
}

func TestTheFirstTokenBudgetFollowsTheMeasuredRate(t *testing.T) {
	c := newClient(Options{BaseURL: "http://127.0.0.1:1/v1"})
	c.measured(Usage{Prompt: 100}, time.Second)
	if rate := c.pace.get(); rate != 0 {
		t.Errorf("a short prompt was measured: %f", rate)
	}
	c.measured(Usage{Prompt: 60_000, Cached: 50_000}, 100*time.Second) // 100 tokens a second
	if got := c.firstToken(40_000, 0); got != prefillStart+1200*time.Second {
		t.Errorf("40,000 tokens at 100 a second: %s", got)
	}
	if got := c.firstToken(1000, 0); got != localFirstToken {
		t.Errorf("a short prompt: %s", got)
	}
	c.measured(Usage{Prompt: 20_000}, 100*time.Second)
	if rate := c.pace.get(); rate < 129 || rate > 131 {
		t.Errorf("the mean of 100 and 200 is %f", rate)
	}
	for _, want := range []string{"first token 15m0s (a server nearby)", "130 tokens a second", "doubled after each silence", "3m0s", "0 retries"} {
		if d := c.Describe().Timeouts; !strings.Contains(d, want) {
			t.Errorf("%q lacks %q", d, want)
		}
	}
	if d := newClient(Options{BaseURL: "https://api.example/v1", FirstToken: 30 * time.Second, MaxRetries: 2}).Describe().Timeouts; !strings.Contains(d, "first token 30s (configured)") || !strings.Contains(d, "2 retries") {
		t.Error(d)
	}
}

// A server that says how far it is with the prompt is not silent, however long that takes; one that says the same again and again is.
func TestProgressWithThePromptIsASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		w.serve = func(_ int, p *pipeWriter) {
			for i := 1; i <= 9; i++ {
				time.Sleep(100 * time.Second)
				write(p, fmt.Sprintf(`{"choices":[],"prompt_progress":{"total":900,"processed":%d,"cache":0,"time_ms":1}}`, 100*i))
			}
			write(p, hello, stop, "[DONE]")
			_ = p.Close()
		}
		s := newSeen()
		got, err := timed(t, w, Options{}).Complete(t.Context(), ask, s.sink)
		if err != nil || got.Text != "hello" || w.calls != 1 {
			t.Errorf("%+v, %v, %d calls", got, err, w.calls)
		}
		told := 0
		for _, d := range s.deltas {
			if strings.Contains(d.Notice, "% of the prompt") {
				told++
			}
		}
		if told != 9 {
			t.Errorf("progress was told %d times", told)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := &wire{serve: func(_ int, p *pipeWriter) {
			for {
				time.Sleep(20 * time.Second)
				if _, err := p.Write([]byte(sse(`{"choices":[],"prompt_progress":{"total":900,"processed":100}}`))); err != nil {
					return
				}
			}
		}}
		start := time.Now()
		if _, err := timed(t, w, Options{}).Complete(t.Context(), ask, nil); err == nil || time.Since(start) != 20*time.Second+DefaultFirstToken {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

func TestTheBreakerSaysWhenAndAPersonCanCloseIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{serve: func(int, *pipeWriter) {}}
		c := timed(t, w, Options{BreakerAfter: 2})
		for range 2 {
			_, _ = c.Complete(t.Context(), ask, nil)
		}
		_, err := c.Complete(t.Context(), ask, nil)
		failed, _ := errors.AsType[*Error](err)
		at := time.Now().Add(breakerFirst).Local().Format(time.TimeOnly)
		if failed == nil || failed.Class != Breaker || !strings.Contains(failed.Message, "next try is at "+at+", in 2m0s") || w.calls != 2 {
			t.Fatalf("%v after %d calls", err, w.calls)
		}
		s := c.Stats()[0]
		if !s.Open || !strings.Contains(s.Breaker, "after 2 silent calls, next try at "+at) || s.Silent != 2 || s.Failed[Breaker] != 1 || len(s.Recent) != 3 {
			t.Errorf("%+v", s)
		}
		Reset(c)
		if s := c.Stats()[0]; s.Open || s.Breaker != "closed, 0 silent calls in a row" {
			t.Errorf("after the reset: %+v", s)
		}
		if _, _ = c.Complete(t.Context(), ask, nil); w.calls != 3 {
			t.Error("the reset breaker kept the call back")
		}
		never := timed(t, w, Options{BreakerAfter: -1})
		for range 9 {
			_, _ = never.Complete(t.Context(), ask, nil)
		}
		if never.Stats()[0].Open {
			t.Error("a breaker that is off opened")
		}
	})
}

// Who waited at the gate while the breaker opened is refused there, and does not try the server that hangs one after the other.
func TestTheBreakerIsForThoseWhoWaitToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{serve: func(int, *pipeWriter) {}}
		c := timed(t, w, Options{BreakerAfter: 2, Gate: NewGate("k", Limits{Concurrent: 1})})
		var refused atomic.Int32
		var wg sync.WaitGroup
		for range 9 {
			wg.Go(func() {
				_, err := c.Complete(t.Context(), ask, nil)
				if failed, ok := errors.AsType[*Error](err); ok && failed.Class == Breaker && strings.Contains(failed.Message, "next try is at") {
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		if w.calls != 2 || refused.Load() != 7 {
			t.Errorf("%d calls, %d refused", w.calls, refused.Load())
		}
	})
}

// Nine calls that hang at the same time are one silence: the server is tried as soon as after one.
func TestCallsThatHangTogetherOpenTheBreakerOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{serve: func(int, *pipeWriter) {}}
		c := timed(t, w, Options{BreakerAfter: 2})
		var wg sync.WaitGroup
		for range 9 {
			wg.Go(func() { _, _ = c.Complete(t.Context(), ask, nil) })
		}
		wg.Wait()
		_, err := c.Complete(t.Context(), ask, nil)
		if failed, ok := errors.AsType[*Error](err); !ok || failed.Class != Breaker || failed.RetryAfter != breakerFirst {
			t.Errorf("after nine calls: %v", err)
		}
	})
}

// A call that is to try the server and waits at the gate until its caller leaves lets the next one try.
func TestAProbeThatWaitsAtTheGateHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := NewGate("k", Limits{Concurrent: 1})
		w := &wire{serve: func(int, *pipeWriter) {}}
		c := timed(t, w, Options{BreakerAfter: 1, Gate: gate})
		_, _ = c.Complete(t.Context(), ask, nil)
		time.Sleep(breakerFirst)
		inside, err := gate.Enter(t.Context(), Caller{Session: "another model of this key"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = c.Complete(ctx, ask, nil) })
		wg.Go(func() { _, _ = c.Complete(t.Context(), ask, nil) })
		synctest.Wait()
		leave()
		inside.Leave()
		wg.Wait()
		if w.calls != 2 || gate.Stats().Inside != 0 {
			t.Errorf("%d calls, %+v", w.calls, gate.Stats())
		}
	})
}

func TestARunawayAnswerIsCutOffWithOneClearError(t *testing.T) {
	server := fakellm.Start(fakellm.Options{Each: func(fakellm.Request) fakellm.Response {
		return fakellm.Raw{Body: "data: " + strings.Repeat("x", maxEvent+10) + "\n\n"}
	}})
	t.Cleanup(server.Close)
	client, _ := clientOf(t, server)
	_, err := client.Complete(bounded(t), ask, nil)
	if err == nil || !strings.Contains(err.Error(), "larger than 16 MiB") || len(server.Requests()) != 1 {
		t.Errorf("%v after %d calls", err, len(server.Requests()))
	}
}

// Nothing between the wire and the caller waits for more bytes or for a clock: that would be in every round, and the best of them is within two
// milliseconds. How it is on a quiet machine is a figure.
func TestTheFirstBytePassesAtOnce(t *testing.T) {
	best := time.Hour
	for range 20 {
		var sent time.Time
		gate := make(chan struct{}, 1)
		server := fakellm.New(t, fakellm.Text{Text: "now", Gate: gate})
		client, _ := clientOf(t, server)
		var took time.Duration
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = client.Complete(bounded(t), ask, func(d Delta) {
				if d.Text != "" {
					took = time.Since(sent)
				}
			})
		}()
		if _, err := server.Wait(bounded(t), 1); err != nil {
			t.Fatal(err)
		}
		sent = time.Now()
		gate <- struct{}{}
		<-done
		best = min(best, took)
	}
	if best > 2*time.Millisecond {
		t.Errorf("the best of 20 first bytes took %s", best)
	}
}
