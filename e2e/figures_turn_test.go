package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
	"gatewayd/internal/procfs"
	"gatewayd/internal/sqlite"
	"gatewayd/internal/vigil"
	"gatewayd/sessiondb"
)

// prompt is a model that notes when it was asked. It answers at once, or after a time of thinking.
type prompt struct {
	thinks bool // for 0.5 to 1.5 s
	mu     sync.Mutex
	asked  []time.Time
}

// thinksAbout is how long a model thinks that thinks, on average.
const thinksAbout = time.Second

// rest lets time pass beside a model that thinks.
func (p *prompt) rest(d time.Duration) {
	if p.thinks {
		vigil.LetPass(d, "nothing happens while a model thinks")
	}
}

func (p *prompt) Describe() provider.Description { return provider.Description{Name: "at-once"} }

func (p *prompt) Complete(context.Context, provider.Request, func(provider.Delta)) (provider.Response, error) {
	p.rest(thinksAbout/2 + rand.N(thinksAbout))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, time.Now())
	return provider.Response{Text: "at once", FinishReason: "stop"}, nil
}

// clocked is a store that notes how long each write of a turn's rows takes.
type clocked struct {
	*sessiondb.Store
	mu   sync.Mutex
	took []float64 // µs
}

func (c *clocked) note(write func() ([]sessiondb.Message, error)) ([]sessiondb.Message, error) {
	began := time.Now()
	rows, err := write()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, float64(time.Since(began).Nanoseconds())/1e3)
	return rows, err
}

func (c *clocked) Begin(ctx context.Context, l sessiondb.Lease, p sessiondb.Pending, rows []sessiondb.NewMessage) ([]sessiondb.Message, error) {
	return c.note(func() ([]sessiondb.Message, error) { return c.Store.Begin(ctx, l, p, rows) })
}

func (c *clocked) End(ctx context.Context, l sessiondb.Lease, turn string, rows []sessiondb.NewMessage) ([]sessiondb.Message, error) {
	return c.note(func() ([]sessiondb.Message, error) { return c.Store.End(ctx, l, turn, rows) })
}

func figureGateway(t *testing.T, store gateway.Store, model provider.Model) *gateway.Gateway {
	t.Helper()
	return gateway.New(gateway.Options{Store: store, Model: model, Sole: true, Grace: -1, Log: slog.New(slog.DiscardHandler), Compaction: gateway.CompactionOptions{Off: true}})
}

// turnFigures measures what a turn costs beside the model: its request made of a long conversation, and its rows beside those of
// many others.
func turnFigures(t *testing.T) []figure {
	figures := append(assemblyFigure(t), persistenceFigure(t, "64 turns at once, a write of their rows, p99", &prompt{}, 12)...)
	return append(figures, persistenceFigure(t, "the same with a model that takes 0.5 to 1.5 s", &prompt{thinks: true}, 8)...)
}

// assemblyFigure measures from a message until the model is asked, in a conversation of 10,000 rows: with the rows of the turn before in
// memory, and where each turn reads them all.
func assemblyFigure(t *testing.T) []figure {
	kept, read := assemblies(t, sessiondb.Options{}), assemblies(t, sessiondb.Options{KeepBytes: -1})
	return []figure{
		below("a turn on 10,000 rows: from the message until the model is asked", median(kept), "ms", 15),
		atMost("the same", median(kept), "ms", "reading all rows", median(read), 0.5),
	}
}

// assemblies has a store of a kind take turns in a long conversation.
func assemblies(t *testing.T, o sessiondb.Options) (took []float64) {
	s := figureStoreWith(t, o)
	l := figureLease(t, s)
	for range 100 {
		rows := make([]sessiondb.NewMessage, 0, 100)
		for i := range 50 {
			rows = append(rows, sessiondb.NewMessage{Role: "user", Content: fmt.Sprintf("question %d %.200s", i, kilobyte)},
				sessiondb.NewMessage{Role: "assistant", Content: fmt.Sprintf("answer %d %.400s", i, kilobyte)})
		}
		if _, err := s.Append(t.Context(), l, rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Release(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	model := &prompt{}
	g := figureGateway(t, s, model)
	for i := range 15 {
		began := time.Now()
		r, err := g.Say(t.Context(), gateway.Say{Session: l.Session, Source: gateway.SourceCLI, Text: "and now?"}, nil)
		if err != nil || !r.Completed {
			t.Fatalf("%+v, %v", r, err)
		}
		took = append(took, float64(model.asked[i].Sub(began).Microseconds())/1e3)
	}
	return took
}

// atOnce is how many conversations take turns at once.
const atOnce = 64

// persistenceFigure has 64 conversations take so many turns at once, as fast as their model lets them, and looks at the writes of their
// rows. With a model that answers at once all of them write all the time, so that a write waits for the CPU of 64 others. With one that
// thinks they are as many turns as before, spread as their thinking spreads them, and write when they have something to write; the
// disk has rested then, and a sync after a rest is several times as dear on many a machine. So is the one that they are measured by.
func persistenceFigure(t *testing.T, what string, model *prompt, turns int) []figure {
	s := &clocked{Store: figureStore(t)}
	floor, err := sqlite.NewFloor(filepath.Dir(s.File().Path()))
	if err != nil {
		t.Fatal(err)
	}
	defer floor.Close()
	var syncs []float64
	sample := func() {
		for range 120 {
			model.rest(time.Duration(rand.ExpFloat64() * float64(thinksAbout/atOnce)))
			syncs = append(syncs, micros(t, floor.Overwrite))
		}
	}
	s.turns(t, &prompt{}, 12) // a store in use has a -wal of its full length, which is written over
	s.took = nil
	sample()
	s.turns(t, model, turns)
	sample()
	return []figure{atMost(what, quantile(s.took, 0.99), "µs", "overwrite + fdatasync as often, p99", quantile(syncs, 0.99), 3)}
}

// turns has all conversations take so many turns.
func (c *clocked) turns(t *testing.T, model *prompt, turns int) {
	t.Helper()
	g := figureGateway(t, c, model)
	var wg sync.WaitGroup
	for n := range atOnce {
		wg.Go(func() {
			model.rest(rand.N(thinksAbout))
			for range turns {
				r, err := g.Say(t.Context(), gateway.Say{Session: fmt.Sprintf("figure-%d", n), Source: gateway.SourceCLI, Text: "hello"}, nil)
				if err != nil || !r.Completed {
					t.Errorf("%+v, %v", r, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// conversationFigure looks at what 200 conversations that nobody continues cost a daemon.
func conversationFigure(t *testing.T) []figure {
	d := start(t, newHome(t, "model: {provider: offline}\n"))
	defer d.stop()
	rss := func() float64 {
		vigil.LetPass(3*time.Second, "what the turns themselves needed is given back")
		bytes, err := procfs.RSS(d.child.PID())
		if err != nil {
			t.Fatal(err)
		}
		return float64(bytes) / (1 << 20)
	}
	if err := d.say("first", "hello", nil); err != nil {
		t.Fatal(err)
	}
	before := rss()
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 25 {
				if err := d.say(fmt.Sprintf("idle-%d-%d", n, i), "hello, "+kilobyte, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return []figure{below("200 idle conversations, memory above the base", rss()-before, "MiB", 40)}
}
