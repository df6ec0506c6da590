package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/problem"
	"gatewayd/internal/vigil"
	"gatewayd/sessiondb"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// house is a store, conversations with a scripted model, and a desk.
type house struct {
	t     *testing.T
	store *sessiondb.Store
	llm   *fakellm.Server
	chat  *gateway.Gateway
	desk  *Desk
}

func newHouse(t *testing.T, change func(*Options), script ...fakellm.Response) *house {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	store, err := sessiondb.Open(t.Context(), sessiondb.Options{Path: filepath.Join(t.TempDir(), "state.db"), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	h := &house{t: t, store: store, llm: fakellm.New(t, script...)}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	model := provider.New(provider.Options{BaseURL: h.llm.URL(), Name: fakellm.Model, Transport: transport})
	h.chat = gateway.New(gateway.Options{Store: store, Model: model, Log: quiet, Sole: true, Grace: -1})
	h.desk = h.newDesk(change)
	ctx, stop := context.WithCancel(context.Background())
	var talking sync.WaitGroup
	talking.Go(func() { _ = h.chat.Run(ctx) })
	t.Cleanup(func() { stop(); talking.Wait() })
	return h
}

// newDesk is a desk that lives as long as the test, and longer than the conversations.
func (h *house) newDesk(change func(*Options)) *Desk {
	o := Options{Store: h.store, Chat: h.chat}
	if change != nil {
		change(&o)
	}
	desk := New(o)
	if err := desk.Recover(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = desk.Run(ctx) })
	h.t.Cleanup(func() { stop(); running.Wait() })
	return desk
}

func (h *house) start(text string) sessiondb.Run {
	h.t.Helper()
	if _, err := h.store.CreateSession(h.t.Context(), sessiondb.NewSession{ID: "s"}); err != nil {
		h.t.Fatal(err)
	}
	run, err := h.desk.Start(h.t.Context(), Ask{Owner: "k", Say: gateway.Say{Session: "s", Source: gateway.SourceAPI, Text: text}})
	if err != nil {
		h.t.Fatal(err)
	}
	return run
}

// heard are all events of a run behind a number, until its end.
func (h *house) heard(id string, after int64) (out []sessiondb.RunEvent) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 30*time.Second)
	defer cancel()
	for {
		events, over, err := h.desk.Next(ctx, id, after)
		if err != nil || ctx.Err() != nil {
			h.t.Fatalf("after %d: %v %v", after, err, ctx.Err())
		}
		out = append(out, events...)
		if over {
			return out
		}
		after = out[len(out)-1].Seq
	}
}

// awaits is the first event of this name.
func (h *house) awaits(id, name string) sessiondb.RunEvent {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 30*time.Second)
	defer cancel()
	for after := int64(0); ; {
		events, over, err := h.desk.Next(ctx, id, after)
		for _, e := range events {
			if after = e.Seq; e.Name == name {
				return e
			}
		}
		if err != nil || over || ctx.Err() != nil {
			h.t.Fatalf("no %s: %v %t %v", name, err, over, ctx.Err())
		}
	}
}

func names(events []sessiondb.RunEvent) string {
	var out []string
	for _, e := range events {
		if n := len(out); n == 0 || out[n-1] != e.Name {
			out = append(out, e.Name)
		}
	}
	return strings.Join(out, " ")
}

func field(t *testing.T, e sessiondb.RunEvent, name string) any {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(e.Body, &body); err != nil {
		t.Fatalf("%s: %v", e.Body, err)
	}
	return body[name]
}

// Whoever watches a run, from wherever, is told of each event once, and of the whole answer by the last one.
func TestARunTellsEachThingOnce(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "bit by bit by bit", ChunkChars: 4, Delay: 30 * time.Millisecond})
	run := h.start("hello")
	all := h.heard(run.ID, 0)
	if got := names(all); got != "run.queued run.started model message.delta run.completed" {
		t.Errorf("events: %s", got)
	}
	text := ""
	for i, e := range all {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has the number %d", i, e.Seq)
		}
		if e.Name == EventDelta {
			text += field(t, e, "delta").(string)
		}
	}
	last := all[len(all)-1]
	if text != "bit by bit by bit" || field(t, last, "output") != text {
		t.Errorf("said %q, ended with %s", text, last.Body)
	}
	if again := h.heard(run.ID, 3); len(again) != len(all)-3 || again[0].Seq != 4 {
		t.Errorf("behind the third: %s", names(again))
	}
	stored, err := h.desk.Get(t.Context(), "k", run.ID)
	if err != nil || stored.Status != sessiondb.RunCompleted || !strings.Contains(string(stored.Result), `"output":"bit by bit by bit"`) {
		t.Errorf("%+v %v", stored, err)
	}
	if _, err := h.desk.Get(t.Context(), "other", run.ID); !problem.Is(err, problem.NotFound) {
		t.Errorf("another key reads it: %v", err)
	}
}

// A run is stopped wherever it is: before its turn, when nothing is said, and in the middle.
func TestARunIsStopped(t *testing.T) {
	h := newHouse(t, func(o *Options) { o.Most = 2 }, fakellm.Hang{})
	running := h.start("first")
	queued := h.start("second")
	if _, err := h.desk.Start(t.Context(), Ask{Say: gateway.Say{Session: "s", Text: "third"}}); !problem.Is(err, problem.Busy) {
		t.Errorf("a third one: %v", err)
	}
	h.awaits(running.ID, EventStarted)
	for _, id := range []string{queued.ID, running.ID} {
		if _, err := h.desk.Stop(t.Context(), "other", id); !problem.Is(err, problem.NotFound) {
			t.Errorf("another key stops it: %v", err)
		}
		if _, err := h.desk.Stop(t.Context(), "k", id); err != nil {
			t.Fatal(err)
		}
		all := h.heard(id, 0)
		if got := names(all); !strings.HasSuffix(got, "run.stopping run.cancelled") {
			t.Errorf("events: %s", got)
		}
		if again, err := h.desk.Stop(t.Context(), "k", id); err != nil || again.Status != sessiondb.RunCancelled {
			t.Errorf("again: %+v %v", again, err)
		}
	}
	rows, err := h.store.Messages(t.Context(), "s", sessiondb.MessageFilter{})
	if err != nil || len(rows) != 2 || rows[0].Content != "first" {
		t.Errorf("%+v %v", rows, err)
	}
}

// A run that is stopped while its turn waits for another process has its end at once.
func TestARunThatIsStoppedBeforeItsTurnBeganHasItsEnd(t *testing.T) {
	h := newHouse(t, nil)
	if _, err := h.store.CreateSession(t.Context(), sessiondb.NewSession{ID: "s"}); err != nil {
		t.Fatal(err)
	}
	holder, err := sessiondb.SelfHolder("another process")
	if err != nil {
		t.Fatal(err)
	}
	l, err := h.store.TryTurn(t.Context(), "s", holder, 0)
	if err != nil {
		t.Fatal(err)
	}
	run := h.start("waits")
	if !vigil.Until(30*time.Second, t.Context().Done(), func() bool { return len(h.chat.Status().Running) == 1 }) {
		t.Fatal("its turn has not come")
	}
	if _, err := h.desk.Stop(t.Context(), "k", run.ID); err != nil {
		t.Fatal(err)
	}
	if last := h.awaits(run.ID, "run.cancelled"); !strings.Contains(string(last.Body), "nothing of it was said") {
		t.Errorf("%s", last.Body)
	}
	if err := h.store.Release(t.Context(), l); err != nil {
		t.Fatal(err)
	}
}

// A run that an earlier process left open ends as its rows tell, once.
func TestARunOfAnEarlierProcessEndsAsItsRowsTell(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "answered"})
	if _, err := h.store.CreateSession(t.Context(), sessiondb.NewSession{ID: "s"}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.chat.Say(t.Context(), gateway.Say{Session: "s", Source: gateway.SourceAPI, Text: "hello", UID: "u1"}, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ id, uid, status string }{{"run_a", "u1", sessiondb.RunCompleted}, {"run_b", "u2", sessiondb.RunInterrupted}} {
		w := sessiondb.Waiting{UID: c.uid, Session: "s", Mode: sessiondb.InboxTurn, Source: gateway.SourceAPI, Content: "hello"}
		run := sessiondb.NewRun{Run: sessiondb.Run{ID: c.id, Session: "s", Owner: "k", UID: c.uid, Status: sessiondb.RunRunning, CreatedAt: time.Now()}}
		if _, err := h.store.Accept(t.Context(), w, 9, &run); err != nil {
			t.Fatal(err)
		}
		if _, err := h.store.Withdraw(t.Context(), c.uid); err != nil {
			t.Fatal(err)
		}
		desks := []*Desk{h.newDesk(nil), h.newDesk(nil)} // both find it: there is one end all the same
		h.desk = desks[0]
		all := h.heard(c.id, 0)
		if names(all) != "run."+c.status || len(all) != 1 {
			t.Errorf("%s: %s", c.id, names(all))
		}
		if run, err := desks[1].Get(t.Context(), "k", c.id); err != nil || run.Status != c.status {
			t.Errorf("%+v %v", run, err)
		}
	}
}
