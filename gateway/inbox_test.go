package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// orderly is a context that the test ends itself.
func orderly(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(soon(t))
	t.Cleanup(cancel)
	return ctx, cancel
}

func (h *house) post(say Say) Accepted {
	h.t.Helper()
	if say.Session == "" {
		say.Session = "s1"
	}
	say.Source = SourceAPI
	accepted, err := h.Post(soon(h.t), say)
	if err != nil {
		h.t.Fatal(err)
	}
	return accepted
}

func (h *house) inbox() (texts []string) {
	h.t.Helper()
	waiting, err := h.store.Inbox(h.t.Context(), "")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, w := range waiting {
		texts = append(texts, w.Content)
	}
	return texts
}

func words(rows []sessiondb.Message) (texts []string) {
	for _, row := range rows {
		texts = append(texts, row.Content)
	}
	return texts
}

func TestAMessageIsInTheInboxUntilItsRowIsStored(t *testing.T) {
	gate := make(chan struct{})
	h := newHouse(t, nil, fakellm.Text{Text: "one", Gate: gate}, fakellm.Text{Text: "two"})
	h.post(Say{Text: "first"})
	wait(t, h.llm, 1)
	if got := h.inbox(); len(got) != 0 {
		t.Errorf("a message whose row is stored is in the inbox: %q", got)
	}
	second := h.post(Say{Text: "second", UID: "u2"})
	again := h.post(Say{Text: "second", UID: "u2"})
	if second.Position != 1 || again.Position != 1 || second.UID != "u2" || !slices.Equal(h.inbox(), []string{"second"}) {
		t.Errorf("%+v, %+v, %q", second, again, h.inbox())
	}
	close(gate)
	until(t, h, "both are answered", func(s Status) bool { return s.Turns == 2 && s.Conversations == 0 })
	if got := words(h.rows("s1")); !slices.Equal(got, []string{"first", "one", "second", "two"}) || len(h.inbox()) != 0 {
		t.Errorf("%q, inbox %q", got, h.inbox())
	}
	if late := h.post(Say{Text: "second", UID: "u2"}); late.Position != 0 || len(h.rows("s1")) != 4 {
		t.Errorf("said twice: %+v", late)
	}
}

func TestAnAcceptedMessageCanBeTakenBackUntilItsTurnBegins(t *testing.T) {
	gate := make(chan struct{})
	h := newHouse(t, nil, fakellm.Text{Text: "one", Gate: gate})
	h.post(Say{Text: "first", UID: "u1"})
	wait(t, h.llm, 1)
	h.post(Say{Text: "second", UID: "u2"})
	if was, err := h.Withdraw(soon(t), "s1", "u2"); err != nil || !was || len(h.inbox()) != 0 {
		t.Errorf("%v, %v, inbox %q", was, err, h.inbox())
	}
	if was, err := h.Withdraw(soon(t), "s1", "u1"); err != nil || was {
		t.Errorf("a message whose turn runs was taken back: %v, %v", was, err)
	}
	close(gate)
	until(t, h, "idle", func(s Status) bool { return s.Conversations == 0 })
	if got := words(h.rows("s1")); !slices.Equal(got, []string{"first", "one"}) {
		t.Errorf("%q", got)
	}
}

func TestTheInboxIsBounded(t *testing.T) {
	gate := make(chan struct{})
	h := newHouse(t, func(o *Options) { o.Mailbox = 2 }, fakellm.Text{Text: "one", Gate: gate}, fakellm.Text{Text: "2"}, fakellm.Text{Text: "3"})
	h.post(Say{Text: "runs"})
	wait(t, h.llm, 1)
	h.post(Say{Text: "a"})
	h.post(Say{Text: "b"})
	if _, err := h.Post(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "c"}); !problem.Is(err, problem.Busy) {
		t.Errorf("%v", err)
	}
	close(gate)
	until(t, h, "idle", func(s Status) bool { return s.Turns == 3 && s.Conversations == 0 })
}

func TestWhatIsAcceptedWhileGatewaydStopsIsSaidAfterTheNextStart(t *testing.T) {
	gate := make(chan struct{})
	h := newHouse(t, nil, fakellm.Text{Text: "one", Gate: gate})
	h.spy.refuse = func(rows []sessiondb.NewMessage) error {
		if rows[0].Role == roleAssistant && h.Status().Draining {
			<-gate // the last row waits until the test has spoken
		}
		return nil
	}
	go func() { _, _ = h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "runs"}, nil) }()
	wait(t, h.llm, 1)
	h.post(Say{Text: "waits"})
	stopped := make(chan struct{})
	go func() { defer close(stopped); h.stop() }()
	until(t, h, "draining", func(s Status) bool { return s.Draining })
	if late := h.post(Say{Text: "late"}); !late.Held {
		t.Errorf("%+v", late)
	}
	if _, err := h.Post(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "now!", Mode: ModeRedirect}); !problem.Is(err, problem.Unavailable) {
		t.Errorf("a redirect was taken by a daemon that stops: %v", err)
	}
	close(gate)
	<-stopped
	h.llm.Push(fakellm.Text{Text: "two"}, fakellm.Text{Text: "three"})
	h.restart(nil)
	if _, err := h.Recover(soon(t)); err != nil {
		t.Fatal(err)
	}
	until(t, h, "both are answered", func(s Status) bool { return s.Turns == 2 && s.Conversations == 0 })
	if got := strings.Join(words(h.rows("s1")), "|"); !strings.HasSuffix(got, "|waits|two|late|three") {
		t.Errorf("%q", got)
	}
}

// busyTool is a tool that runs until the test lets it go on.
func busyTool() (fake, chan struct{}, chan struct{}) {
	running, goOn := make(chan struct{}, 4), make(chan struct{})
	return fake{name: "work", run: func(ctx context.Context, _ tool.Call) tool.Result {
		running <- struct{}{}
		select {
		case <-goOn:
			return tool.Result{Content: "worked", Effect: tool.EffectDone}
		case <-ctx.Done():
			return tool.Result{Content: "half done", Err: true, Effect: tool.EffectUnknown, Interrupted: true}
		}
	}}, running, goOn
}

func TestASteerFollowsTheNextResult(t *testing.T) {
	work, running, goOn := busyTool()
	h := newHouse(t, with(work), fakellm.ToolCall{Name: "work"}, fakellm.Text{Text: "as you say"}, fakellm.Text{Text: "next"})
	var kinds []string
	done := make(chan Result, 1)
	go func() {
		r, _ := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "go"}, func(e Event) { kinds = append(kinds, string(e.Kind)) })
		done <- r
	}()
	<-running
	for _, text := range []string{"the blue one", "and fast"} {
		if _, err := h.Steer(soon(t), "s1", text); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.inbox(); !slices.Equal(got, []string{"the blue one", "and fast"}) {
		t.Errorf("inbox %q", got)
	}
	close(goOn)
	r := <-done
	rows := h.rows("s1")
	if r.Text != "as you say" || len(r.PendingSteer) != 0 || shape(rows) != "user assistant+1 tool user/steer user/steer assistant" || len(h.inbox()) != 0 {
		t.Errorf("%+v, %s", r, shape(rows))
	}
	if !slices.Contains(kinds, string(EventSteered)) {
		t.Errorf("events %q", kinds)
	}
	messages := sentMessages(t, h.llm.Requests()[1])
	if last := string(messages[len(messages)-1]); !strings.Contains(last, `the blue one\n\nand fast`) || !strings.Contains(last, `"user"`) {
		t.Errorf("sent %s", last)
	}
	if r := h.say(Say{Text: "more"}); r.Prefix.Broken || r.Prefix.Equal == 0 {
		t.Errorf("prefix %+v", r.Prefix)
	}
}

func TestASteerWithoutAResultIsTheNextMessageBehindThoseThatWait(t *testing.T) {
	gate := make(chan struct{})
	h := newHouse(t, nil, fakellm.Text{Text: "one", Gate: gate}, fakellm.Text{Text: "two"}, fakellm.Text{Text: "three"})
	done := make(chan Result, 1)
	go func() { done <- h.say(Say{Text: "go"}) }()
	wait(t, h.llm, 1)
	if _, err := h.Steer(soon(t), "s1", "steered"); err != nil {
		t.Fatal(err)
	}
	h.post(Say{Text: "queued"})
	close(gate)
	if r := <-done; !slices.Equal(r.PendingSteer, []string{"steered"}) {
		t.Errorf("%+v", r)
	}
	until(t, h, "all are answered", func(s Status) bool { return s.Turns == 3 && s.Conversations == 0 })
	if got := words(h.rows("s1")); !slices.Equal(got, []string{"go", "one", "queued", "two", "steered", "three"}) {
		t.Errorf("%q", got)
	}
}

func TestAnInterruptStopsTheTurnAndGoesFirst(t *testing.T) {
	work, running, _ := busyTool()
	h := newHouse(t, with(work), fakellm.ToolCall{Name: "work"}, fakellm.Text{Text: "two"}, fakellm.Text{Text: "three"})
	var wg sync.WaitGroup
	wg.Go(func() {
		if r := h.say(Say{Text: "go"}); r.ExitReason != "interrupted(stop)" {
			t.Errorf("%+v", r)
		}
	})
	<-running
	h.post(Say{Text: "queued"})
	h.post(Say{Text: "no!", Mode: ModeInterrupt})
	wg.Wait()
	until(t, h, "all are answered", func(s Status) bool { return s.Turns == 3 && s.Conversations == 0 })
	rows := h.rows("s1")
	if got := shape(rows); got != "user assistant+1 tool/interrupted assistant/closing user assistant user assistant" || rows[4].Content != "no!" {
		t.Errorf("%s, %q", got, rows[4].Content)
	}
	assertWhole(t, rows)
}

func TestARedirectOfARunningToolLeavesItWhereItCanGoOn(t *testing.T) {
	work, running, _ := busyTool()
	h := newHouse(t, with(leaver{work}), fakellm.ToolCall{Name: "work"}, fakellm.Text{Text: "two"})
	var wg sync.WaitGroup
	wg.Go(func() {
		if r := h.say(Say{Text: "go"}); r.ExitReason != "interrupted(redirect)" {
			t.Errorf("%+v", r)
		}
	})
	<-running
	h.post(Say{Text: "look here", Mode: ModeRedirect})
	wg.Wait()
	until(t, h, "answered", func(s Status) bool { return s.Turns == 2 && s.Conversations == 0 })
	rows := h.rows("s1")
	if got := shape(rows); got != "user assistant+1 tool assistant/closing user assistant" || rows[2].Content != "goes on as proc_1" {
		t.Errorf("%s, %q", got, rows[2].Content)
	}
}

// leaver is a tool that can leave its call in the background.
type leaver struct{ fake }

var left = make(chan struct{}, 1)

func (leaver) Detach(string, string) bool { left <- struct{}{}; return true }

func (l leaver) Run(ctx context.Context, call tool.Call) tool.Result {
	done := make(chan tool.Result, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { done <- l.fake.Run(ctx, call) }()
	select {
	case r := <-done:
		return r
	case <-left:
		return tool.Result{Content: "goes on as proc_1", Effect: tool.EffectDone}
	}
}

func TestAWatcherSeesTheTurnFromItsBeginningAndMayAttachAgain(t *testing.T) {
	work, running, goOn := busyTool()
	h := newHouse(t, with(work), fakellm.ToolCall{Name: "work", Text: "let me see"}, fakellm.Text{Text: "done"})
	go func() { _, _ = h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "go"}, nil) }()
	<-running
	first := watching(t, h)
	if e := <-first.events; e.Kind != EventTurn || e.Text != "go" || e.Turn == "" {
		t.Errorf("%+v", e)
	}
	first.until(EventToolStarted)
	first.leave()
	second := watching(t, h)
	if e := <-second.events; e.Kind != EventTurn {
		t.Errorf("%+v", e)
	}
	close(goOn)
	second.until(EventToolFinished)
	if e := second.until(EventEnded); e.Result == nil || e.Result.Text != "done" {
		t.Errorf("%+v", e)
	}
	second.leave()
	until(t, h, "idle", func(s Status) bool { return s.Conversations == 0 })
	if n := len(h.feeds.of); n != 0 {
		t.Errorf("%d feeds without turn and watcher", n)
	}
}

// watcher is one who watches a session.
type watcher struct {
	t      *testing.T
	events chan Event
	stop   context.CancelFunc
	ended  chan error
}

func watching(t *testing.T, h *house) *watcher {
	t.Helper()
	ctx, stop := orderly(t)
	w := &watcher{t: t, events: make(chan Event, 1_000), stop: stop, ended: make(chan error, 1)}
	go func() { w.ended <- h.Watch(ctx, "s1", func(e Event) { w.events <- e }) }()
	w.until(EventWatching) // now nothing is missed
	return w
}

func (w *watcher) until(kind EventKind) Event {
	w.t.Helper()
	for {
		select {
		case e := <-w.events:
			if e.Kind == kind {
				return e
			}
		case <-soon(w.t).Done():
			w.t.Fatalf("no event %s came", kind)
		}
	}
}

func (w *watcher) leave() {
	w.t.Helper()
	w.stop()
	if err := <-w.ended; err != nil {
		w.t.Error(err)
	}
}

func TestAStoppedMessageThatHadNotBegunIsNotSaidLater(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "one"}, fakellm.Text{Text: "two"})
	h.say(Say{Text: "first"})
	l := h.held("s1")
	w := watching(t, h)
	said := h.post(Say{Text: "waits for the other process"})
	until(t, h, "waiting for the lease", func(s Status) bool { return len(s.Running) == 1 })
	if !h.Interrupt("s1", Stop) {
		t.Error("there was no turn to stop")
	}
	if e := w.until(EventNotice); e.UID != said.UID || !strings.Contains(e.Text, "waits for the other process") {
		t.Errorf("told %+v", e)
	}
	w.leave()
	until(t, h, "stopped", func(s Status) bool { return s.Conversations == 0 })
	if got := h.inbox(); len(got) != 0 {
		t.Errorf("inbox %q", got)
	}
	if err := h.store.Release(soon(t), l); err != nil {
		t.Fatal(err)
	}
	if h.say(Say{Text: "second"}); shape(h.rows("s1")) != "user assistant user assistant" {
		t.Error(shape(h.rows("s1")))
	}
}

// A message that was accepted and whose turn has not begun gives its place to one that ends turns, and comes next: only a person's stop takes it
// away. Who waits for it waits on.
func TestAMessageThatAnotherOneKeptFromBeginningComesNext(t *testing.T) {
	for _, mode := range []Mode{ModeInterrupt, ModeRedirect} {
		t.Run(string(mode), func(t *testing.T) {
			h := newHouse(t, nil, fakellm.Text{Text: "a"}, fakellm.Text{Text: "b"}, fakellm.Text{Text: "c"}, fakellm.Text{Text: "d"})
			h.say(Say{Text: "first"})
			l := h.held("s1")
			waited := make(chan string, 1)
			go func() {
				r, err := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "second", Detached: true}, nil)
				waited <- fmt.Sprint(r.Text, err)
			}()
			until(t, h, "waiting for the lease", func(s Status) bool { return len(s.Running) == 1 })
			h.post(Say{Text: "fourth"})
			h.post(Say{Text: "urgent", Mode: mode})
			if err := h.store.Release(soon(t), l); err != nil {
				t.Fatal(err)
			}
			until(t, h, "all are answered", func(s Status) bool { return s.Conversations == 0 })
			if got := words(h.rows("s1")); !slices.Equal(got, []string{"first", "a", "urgent", "b", "second", "c", "fourth", "d"}) {
				t.Errorf("%q", got)
			}
			if told := <-waited; told != "c<nil>" {
				t.Errorf("who waited was told %q", told)
			}
		})
	}
}

// held takes the turn lease of a session as another process does.
func (h *house) held(session string) sessiondb.Lease {
	h.t.Helper()
	holder, err := sessiondb.SelfHolder("another process")
	if err != nil {
		h.t.Fatal(err)
	}
	l, err := h.store.TryTurn(soon(h.t), session, holder, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	return l
}

// What was said into a turn and could not be stored there is said after it, and who waits for it is told not to send it again.
func TestASteerThatCouldNotBeStoredIsSaidLater(t *testing.T) {
	work, running, goOn := busyTool()
	full := &problem.Error{Kind: problem.Full, Thing: "the store", What: "is full"}
	h := newHouse(t, with(work), fakellm.ToolCall{Name: "work"}, fakellm.Text{Text: "later"})
	h.spy.refuse = func(rows []sessiondb.NewMessage) error {
		if len(rows) > 0 && rows[0].Kind == sessiondb.KindSteer {
			return full
		}
		return nil
	}
	done := make(chan Result, 1)
	go func() { done <- h.say(Say{Text: "go"}) }()
	<-running
	if _, err := h.Steer(soon(t), "s1", "the blue one"); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	if r := <-done; r.ExitReason != "session_persistence_failed" || !slices.Equal(r.PendingSteer, []string{"the blue one"}) {
		t.Errorf("%+v", r)
	}
	until(t, h, "it is said", func(s Status) bool { return s.Conversations == 0 })
	if got := words(h.rows("s1")); len(got) != 6 || got[4] != "the blue one" || got[5] != "later" || len(h.inbox()) != 0 {
		t.Errorf("%q, inbox %q", got, h.inbox())
	}
	h.spy.refuse = func([]sessiondb.NewMessage) error { return full }
	_, err := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "waits", Mode: ModeSteer}, nil)
	if !errors.Is(err, ErrAccepted) || !strings.Contains(err.Error(), "do not send it again") || !slices.Equal(h.inbox(), []string{"waits"}) {
		t.Errorf("%v, inbox %q", err, h.inbox())
	}
}

func TestAMessageThatWaitsIsToldItsPlace(t *testing.T) {
	gate := make(chan struct{})
	h := newHouse(t, nil, fakellm.Text{Text: "one", Gate: gate}, fakellm.Text{Text: "two"})
	go func() { _, _ = h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "first"}, nil) }()
	wait(t, h.llm, 1)
	told := make(chan Event, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "second"}, func(e Event) { told <- e })
	}()
	if e := <-told; e.Kind != EventQueued || !strings.Contains(e.Text, "place 1") {
		t.Errorf("%+v", e)
	}
	close(gate)
	<-done
}
