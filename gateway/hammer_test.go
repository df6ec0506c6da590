package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// brain is a model in this process. It calls a tool for each message, then answers; now and then it waits until it is ended.
type brain struct {
	mu     sync.Mutex
	random *rand.Rand // guarded by mu
}

func (b *brain) Describe() provider.Description {
	return provider.Description{Name: "brain", Provider: "test"}
}

func (b *brain) roll(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.random.IntN(n)
}

func (b *brain) Complete(ctx context.Context, r provider.Request, show func(provider.Delta)) (provider.Response, error) {
	last := r.Messages[len(r.Messages)-1]
	show(provider.Delta{Text: "well, "})
	if b.roll(6) == 0 {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return provider.Response{}, &provider.Error{Class: provider.Interrupted, Partial: provider.Response{Text: "well, "}, Err: context.Cause(ctx)}
	}
	if last.Role == roleUser {
		return provider.Response{ToolCalls: []provider.ToolCall{
			{ID: "a", Name: "work", Arguments: fmt.Sprintf(`{"for":%q}`, last.Content)}, {ID: "b", Name: "look", Arguments: "{}"},
		}, FinishReason: "tool_calls"}, nil
	}
	return provider.Response{Text: "well, done", FinishReason: "stop", Usage: provider.Usage{Prompt: 3, Completion: 1}}, nil
}

// TestAnythingAtOnceLeavesWholeTranscripts sends, redirects, interrupts and leaves at random in a few conversations and drains in
// the middle of it. Whatever happened: rows are whole, what was acknowledged is there once, and what was refused is not there.
func TestAnythingAtOnceLeavesWholeTranscripts(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	b := &brain{random: rand.New(rand.NewPCG(seed, 2))}
	work := func(name string, readOnly bool) fake {
		return fake{name: name, readOnly: readOnly, run: func(ctx context.Context, _ tool.Call) tool.Result {
			if b.roll(5) == 0 {
				<-ctx.Done()
				return tool.Result{Content: "half", Effect: tool.EffectUnknown, Interrupted: true}
			}
			return tool.Result{Content: "ok", Effect: tool.EffectDone}
		}}
	}
	h := newHouse(t, func(o *Options) {
		o.Model, o.Tools, o.StallTimeout, o.Mailbox = b, tools(work("work", false), work("look", true)), 60*time.Millisecond, 4
	})
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		stored = map[string]int{} // text → rows there must be
		counts = map[string]int{}
	)
	say := func(text, session string) {
		ctx, leave := context.WithCancel(soon(t))
		defer leave()
		switch b.roll(8) {
		case 0:
			go h.Interrupt(session, Stop)
		case 1:
			go leave()
		}
		r, err := h.Say(ctx, Say{Session: session, Source: SourceCLI, Text: text, Mode: redirectIf(b.roll(4) == 0)}, func(Event) {})
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			stored[text] = 0
			counts[string(problem.KindOf(err))]++
			return
		}
		stored[text] = 1
		counts[r.ExitReason]++
		if r.Text == "" || b2i(r.Completed)+b2i(r.Interrupted)+b2i(r.Failed) != 1 {
			t.Errorf("%s: %+v", text, r)
		}
	}
	for i := range 12 {
		wg.Go(func() {
			for j := range 14 {
				say(fmt.Sprintf("message %d of %d", j, i), fmt.Sprintf("s%d", b.roll(4)))
				if h.Status().Turns > 80 {
					go h.stop()
				}
			}
		})
	}
	wg.Wait()
	h.stop()
	t.Log(counts)
	if counts["text_response"] == 0 || counts[string(problem.Unavailable)] == 0 {
		t.Error("nothing was answered or nothing was refused, so nothing was proved")
	}
	users := map[string]int{}
	for i := range 4 {
		rows := h.rows(fmt.Sprintf("s%d", i))
		assertWhole(t, rows)
		for _, row := range rows {
			if row.Role == roleUser {
				users[row.Content]++
			}
			if strings.Contains(row.Content, gapAnswer) {
				t.Error("a gap was stored")
			}
		}
	}
	for text, n := range stored {
		if users[text] != n {
			t.Errorf("%s has %d rows, want %d", text, users[text], n)
		}
	}
	if leases, err := h.store.Leases(t.Context()); err != nil || len(leases) != 0 {
		t.Errorf("%d leases left, %v", len(leases), err)
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// scripted is a model in this process that does what a function says.
type scripted func(context.Context, provider.Request, func(provider.Delta)) (provider.Response, error)

func (s scripted) Describe() provider.Description {
	return provider.Description{Name: "scripted", Provider: "test"}
}

func (s scripted) Complete(ctx context.Context, r provider.Request, show func(provider.Delta)) (provider.Response, error) {
	return s(ctx, r, show)
}

func TestAPanicCostsItsTurnOnly(t *testing.T) {
	broken := true
	h := newHouse(t, func(o *Options) {
		o.Model = scripted(func(context.Context, provider.Request, func(provider.Delta)) (provider.Response, error) {
			if broken {
				panic("a bug")
			}
			return provider.Response{Text: "fine"}, nil
		})
	})
	if _, err := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "one"}, nil); !problem.Is(err, problem.Internal) {
		t.Errorf("%v", err)
	}
	broken = false
	if r := h.say(Say{Text: "two"}); r.Text != "fine" {
		t.Errorf("%+v", r)
	}
	if got := shape(h.rows("s1")); got != "user assistant/closing user assistant" {
		t.Error(got)
	}
}

// BenchmarkTurn is a turn without tools, and one with a call, against a model that costs nothing: what is left is ours and the disk's.
func BenchmarkTurn(b *testing.B) {
	for name, calls := range map[string]int{"text": 0, "call": 1} {
		b.Run(name, func(b *testing.B) {
			store, err := sessiondb.Open(b.Context(), sessiondb.Options{Path: filepath.Join(b.TempDir(), "state.db"), Log: quiet()})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			g := New(Options{Store: store, Tools: tools(echo("work")), Terminal: tool.Allow, Log: quiet(), Model: scripted(
				func(_ context.Context, r provider.Request, _ func(provider.Delta)) (provider.Response, error) {
					if calls > 0 && r.Messages[len(r.Messages)-1].Role == roleUser {
						return provider.Response{ToolCalls: []provider.ToolCall{{ID: "a", Name: "work", Arguments: "{}"}}}, nil
					}
					return provider.Response{Text: "fine"}, nil
				})})
			n := 0
			for b.Loop() {
				n++
				if r, err := g.Say(b.Context(), Say{Session: fmt.Sprintf("s%d", n/50), Source: SourceCLI, Text: "hello"}, nil); err != nil || !r.Completed {
					b.Fatal(r, err)
				}
			}
		})
	}
}

func redirectIf(yes bool) Mode {
	if yes {
		return ModeRedirect
	}
	return ModeQueue
}
