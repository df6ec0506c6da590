package provider

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type pipeWriter = io.PipeWriter

// wire is a server inside the test's own time: it writes what serve writes.
type wire struct {
	mu      sync.Mutex // several may call at once
	calls   int
	serve   func(call int, w *pipeWriter)
	serving sync.WaitGroup
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.calls++
	call := w.calls
	w.mu.Unlock()
	reader, writer := io.Pipe()
	w.serving.Go(func() { w.serve(call, writer) })
	stop := context.AfterFunc(r.Context(), func() { _ = writer.CloseWithError(context.Cause(r.Context())) })
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: &pipeBody{reader, stop}, Request: r}, nil
}

type pipeBody struct {
	*io.PipeReader
	stop func() bool
}

func (p *pipeBody) Close() error { p.stop(); return p.PipeReader.Close() }

func write(w *pipeWriter, chunks ...string) { _, _ = io.WriteString(w, sse(chunks...)) }

func timed(t *testing.T, w *wire, opts Options) *client {
	t.Cleanup(w.serving.Wait)
	opts.BaseURL, opts.Name, opts.Transport = "http://model.example/v1", "m", w
	c := New(opts).(*client)
	c.jitter = func() float64 { return 0 }
	return c
}

func TestNoFirstTokenIsATimeoutWhoseBudgetGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{serve: func(call int, w *pipeWriter) {
			if call == 3 {
				time.Sleep(500 * time.Second) // longer than the first two budgets
				write(w, hello, stop, "[DONE]")
				_ = w.Close()
			}
		}}
		start := time.Now()
		got, err := timed(t, w, Options{MaxRetries: 3}).Complete(t.Context(), ask, nil)
		// 180 s, 2 s, 360 s, 4 s, and the third needs 500 of its 720
		if took := time.Since(start); err != nil || got.Text != "hello" || took != (180+2+360+4+500)*time.Second {
			t.Errorf("%v after %s: %+v", err, took, got)
		}
	})
}

func TestCommentsDoNotLookAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{serve: func(_ int, w *pipeWriter) {
			write(w, hello)
			for {
				time.Sleep(10 * time.Second)
				if _, err := io.WriteString(w, ": keep-alive\n\ndata: {\"choices\":[{\"delta\":{}}]}\n\n"); err != nil {
					return
				}
			}
		}}
		start := time.Now()
		_, err := timed(t, w, Options{MaxRetries: 3}).Complete(t.Context(), ask, nil)
		failed, ok := errors.AsType[*Error](err)
		if !ok || failed.Class != Timeout || failed.Partial.Text != "hello" || time.Since(start) != DefaultStall || w.calls != 1 {
			t.Errorf("%v after %s and %d calls", err, time.Since(start), w.calls)
		}
	})
}

func TestWhoWaitsForAModelGivesSigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{serve: func(_ int, w *pipeWriter) {
			time.Sleep(800 * time.Second)
			write(w, hello, stop, "[DONE]")
			_ = w.Close()
		}}
		last, longest := time.Now(), time.Duration(0)
		_, err := timed(t, w, Options{FirstToken: 900 * time.Second}).Complete(t.Context(), ask, func(Delta) {
			longest, last = max(longest, time.Since(last)), time.Now()
		})
		if err != nil || longest > signEvery {
			t.Errorf("%v, the longest silence was %s", err, longest)
		}
	})
}

// A model that thinks where nobody sees it is silent for longer than a short prompt takes to read.
func TestSilentThinkingHasItsTime(t *testing.T) {
	for name, c := range map[string]struct {
		effort string
		usage  string
		opts   Options
		calls  int
	}{
		"told to think":              {effort: "high", calls: 2},
		"seen to think":              {usage: `{"prompt_tokens":9,"completion_tokens":99,"completion_tokens_details":{"reasoning_tokens":90}}`, calls: 2},
		"neither":                    {usage: `{"prompt_tokens":9,"completion_tokens":9}`, calls: 3},
		"told, but for a short time": {effort: "high", opts: Options{FirstToken: 180 * time.Second}, calls: 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{serve: func(call int, w *pipeWriter) {
				if call == 2 {
					time.Sleep(500 * time.Second)
				}
				write(w, hello, stop, `{"choices":[],"usage":`+cmp.Or(c.usage, "null")+`}`, "[DONE]")
				_ = w.Close()
			}}
			c.opts.MaxRetries = 1
			model, request := timed(t, w, c.opts), ask
			request.Effort = c.effort
			for range 2 {
				if _, err := model.Complete(t.Context(), request, nil); err != nil {
					t.Fatal(err)
				}
			}
			if w.calls != c.calls {
				t.Errorf("%s: %d calls, want %d", name, w.calls, c.calls)
			}
		})
	}
}

func TestASlowTrickleIsOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{serve: func(_ int, w *pipeWriter) {
			for range 9 {
				time.Sleep(170 * time.Second)
				write(w, `{"choices":[{"delta":{"content":"."}}]}`)
			}
			write(w, stop, "[DONE]")
			_ = w.Close()
		}}
		got, err := timed(t, w, Options{}).Complete(t.Context(), ask, nil)
		if err != nil || got.Text != "........." || w.calls != 1 {
			t.Errorf("%v, %+v, %d calls", err, got, w.calls)
		}
	})
}

func TestTheWholeRequestIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{serve: func(_ int, w *pipeWriter) {
			for {
				time.Sleep(time.Second)
				if _, err := io.WriteString(w, sse(hello)); err != nil {
					return
				}
			}
		}}
		start := time.Now()
		_, err := timed(t, w, Options{RequestTimeout: 20 * time.Second}).Complete(t.Context(), ask, nil)
		if failed, ok := errors.AsType[*Error](err); !ok || failed.Class != Timeout || time.Since(start) != 20*time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

func TestAStreamLeftOpenAfterItsEndCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for bound, end := range map[time.Duration][]string{finishGrace: {hello, stop}, drainGrace: {hello, stop, "[DONE]"}} {
			w := &wire{serve: func(_ int, w *pipeWriter) { write(w, end...) }}
			start := time.Now()
			got, err := timed(t, w, Options{}).Complete(t.Context(), ask, nil)
			if err != nil || got.Text != "hello" || time.Since(start) > bound {
				t.Errorf("%v after %s: %+v", err, time.Since(start), got)
			}
		}
	})
}

// What follows [DONE] is read, or the connection could not be used again.
func TestABodyIsReadToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var after error
		w := &wire{serve: func(_ int, w *pipeWriter) {
			write(w, hello, stop, "[DONE]")
			time.Sleep(drainGrace / 2)
			_, after = io.WriteString(w, "\n")
			_ = w.Close()
		}}
		_, err := timed(t, w, Options{}).Complete(t.Context(), ask, nil)
		w.serving.Wait()
		if err != nil || after != nil {
			t.Errorf("%v; the server's last write: %v", err, after)
		}
	})
}

func TestALongWaitGivesSignsOfLifeAndCanBeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		left := errors.New("left")
		time.AfterFunc(100*time.Second, func() { cancel(left) })
		signs := 0
		start := time.Now()
		if pause(ctx, time.Hour, func(Delta) { signs++ }) || time.Since(start) != 100*time.Second || signs != 3 {
			t.Errorf("%d signs in %s", signs, time.Since(start))
		}
	})
}

func TestTheBreakerOpensProbesAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var alive atomic.Bool
		w := &wire{serve: func(_ int, w *pipeWriter) {
			if alive.Load() {
				write(w, hello, stop, "[DONE]")
				_ = w.Close()
			}
		}}
		c := timed(t, w, Options{MaxRetries: 0})
		call := func() *Error {
			_, err := c.Complete(t.Context(), ask, nil)
			failed, _ := errors.AsType[*Error](err)
			return failed
		}
		for range DefaultBreakerAfter {
			if err := call(); err == nil || err.Class != Timeout {
				t.Fatalf("before it opens: %v", err)
			}
		}
		before := w.calls
		err := call()
		if err == nil || err.Class != Breaker || err.RetryAfter != breakerFirst || !strings.Contains(err.Error(), "next try is at") || w.calls != before {
			t.Fatalf("open: %v, %d calls", err, w.calls-before)
		}
		time.Sleep(breakerFirst)
		if err := call(); err == nil || err.Class != Timeout { // the probe goes stale too
			t.Fatalf("probe: %v", err)
		}
		if err := call(); err == nil || err.Class != Breaker || err.RetryAfter != 2*breakerFirst {
			t.Fatalf("open again, twice as long: %v", err)
		}
		time.Sleep(2 * breakerFirst)
		alive.Store(true)
		if err := call(); err != nil {
			t.Fatalf("living server: %v", err)
		}
		if err := call(); err != nil {
			t.Fatalf("closed: %v", err)
		}
	})
}

func TestOnlyOneCallProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &breaker{after: DefaultBreakerAfter}
		for range DefaultBreakerAfter {
			b.settle(false, &Error{Class: Timeout})
		}
		time.Sleep(breakerFirst)
		probe, refused := b.admit()
		_, second := b.admit()
		if !probe || refused != nil || second == nil || !strings.Contains(second.Message, "right now") {
			t.Fatalf("probe %v %v, second %v", probe, refused, second)
		}
		b.settle(true, &Error{Class: Interrupted}) // the prober's caller left: the next one may try
		if probe, refused := b.admit(); !probe || refused != nil {
			t.Errorf("after an interrupted probe: %v, %v", probe, refused)
		}
		b.settle(true, &Error{Class: RateLimit, Status: 429}) // an answer is an answer
		if probe, refused := b.admit(); probe || refused != nil {
			t.Errorf("after an answer: %v, %v", probe, refused)
		}
	})
}

func TestTheFirstTokenBudgetFollowsPromptAndPlace(t *testing.T) {
	remote := New(Options{BaseURL: "https://api.example/v1"}).(*client)
	for tokens, want := range map[int]time.Duration{250: 180 * time.Second, 75_000: 240 * time.Second, 125_000: 300 * time.Second} {
		if got := remote.firstToken(tokens, 0); got != want {
			t.Errorf("%d tokens: %s, want %s", tokens, got, want)
		}
	}
	if got := remote.firstToken(0, 9); got != DefaultRequestTimeout {
		t.Errorf("grown without bound: %s", got)
	}
	for host, local := range map[string]bool{
		"127.0.0.1": true, "[::1]": true, "10.1.2.3": true, "192.168.1.9": true, "localhost": true, "[fd00::1]": true,
		"8.8.8.8": false, "localhost.evil.example": false, "10.example.com": false,
	} {
		c := New(Options{BaseURL: "http://" + host + ":1/v1"}).(*client)
		if got := c.firstToken(10, 0) == localFirstToken; got != local {
			t.Errorf("%s: local %v", host, got)
		}
	}
	if c := New(Options{BaseURL: "http://127.0.0.1:1/v1", FirstToken: time.Second}).(*client); c.firstToken(200_000, 0) != time.Second {
		t.Errorf("a configured budget is not kept: %s", c.firstToken(200_000, 0))
	}
}
