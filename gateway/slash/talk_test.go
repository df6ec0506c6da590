package slash

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"gatewayd/gateway"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// /status, /usage and /help need neither the model nor the turn: they answer while both hang.
func TestStatusAnswersBesideAWedgedTurn(t *testing.T) {
	h := newHouse(t, fakellm.Text{Text: "1", Usage: fakellm.Usage{Prompt: 30, Completion: 4}})
	h.say("s1", "a")
	h.run("s1", "/title the garden")
	ended := h.wedged("s1")
	if _, err := h.g.Post(soon(t), gateway.Say{Session: "s1", Source: gateway.SourceAPI, Text: "later", Detached: true}); err != nil {
		t.Fatal(err)
	}
	h.run("s1", "/steer mind the roses")
	begin := time.Now()
	reply := h.run("s1", "/status")
	h.run("s1", "/usage")
	h.run("s1", "/help")
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
	s, _ := reply.Data.(Status)
	if s.Session != "s1" || s.Title != "the garden" || s.Model != fakellm.Model || s.Running == nil || s.Queued != 1 || len(s.Steers) != 1 ||
		s.Tokens.Prompt != 30 || s.Tokens.Completion != 4 || len(s.Unknown) > 0 {
		t.Errorf("got %+v", s)
	}
	for _, want := range []string{"s1  the garden", fakellm.Model, "since", "1 message, and 1 for the running turn", "30 in, 4 out"} {
		if !strings.Contains(reply.Text, want) {
			t.Errorf("%q is not in\n%s", want, reply.Text)
		}
	}
	h.run("s1", "/new now")
	received(t, ended)
}

// The model is named before the first frame of a turn, also before the first message of all.
func TestStatusNamesTheModelBeforeAnythingWasSaid(t *testing.T) {
	h := newHouse(t)
	s, _ := h.run("fresh", "/status").Data.(Status)
	if s.Exists || s.Model != fakellm.Model || s.Provider == "" || s.Chosen != "" {
		t.Errorf("got %+v", s)
	}
	if list, err := h.store.Sessions(t.Context(), sessiondb.ListFilter{}); err != nil || len(list) > 0 {
		t.Errorf("looking made %v %v", list, err)
	}
}

func TestAChosenModelAnswersSurvivesARestartAndEndsWithNew(t *testing.T) {
	h := newHouse(t, fakellm.Text{Text: "1"}, fakellm.Text{Text: "2"}, fakellm.Text{Text: "3"}, fakellm.Text{Text: "4"})
	h.say("s1", "a")
	reply := h.run("s1", "/model other")
	if !strings.Contains(reply.Text, "other") || len(h.reset) != 1 || h.reset[0] != "other" {
		t.Errorf("got %+v, reset %q", reply, h.reset)
	}
	h.say("s1", "b")
	h.stop()
	h.start()
	h.say("s1", "c")
	if s, _ := h.run("s1", "/status").Data.(Status); s.Model != "other" || s.Chosen != "session" {
		t.Errorf("after a restart: %+v", s)
	}
	next := h.run("s1", "/new")
	h.say(next.Session, "d")
	var asked []string
	for _, r := range h.llm.Requests() {
		name, _ := r.JSON()["model"].(string)
		asked = append(asked, name)
	}
	if got := strings.Join(asked, " "); got != fakellm.Model+" other other "+fakellm.Model {
		t.Errorf("asked: %s", got)
	}
}

func TestAModelForOneMessageAnswersOne(t *testing.T) {
	h := newHouse(t, fakellm.Text{Text: "1"}, fakellm.Text{Text: "2"})
	h.run("s1", "/model other --once")
	h.say("s1", "a")
	h.say("s1", "b")
	for i, want := range []string{"other", fakellm.Model} {
		if got := h.llm.Requests()[i].JSON()["model"]; got != want {
			t.Errorf("request %d went to %v", i, got)
		}
	}
	if err := h.refused("s1", "/model nothing-such"); !problem.Is(err, problem.Invalid) {
		t.Errorf("an unknown one: %v", err)
	}
	for _, bad := range []string{"/model --once", "/model a b", "/model other --twice"} {
		if err := h.refused("s1", bad); !problem.Is(err, problem.Invalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// What was said so far is weighed against the window of the model that is chosen.
func TestChoosingAModelWeighsTheConversation(t *testing.T) {
	h := newHouse(t, fakellm.Text{Text: strings.Repeat("words ", 50)})
	h.say("s1", "a")
	if reply := h.run("s1", "/model tiny"); !strings.Contains(reply.Text, "5 fit") {
		t.Errorf("got %+v", reply)
	}
	if reply := h.run("s1", "/model other"); strings.Contains(reply.Text, "fit") {
		t.Errorf("got %+v", reply)
	}
	if s, _ := h.run("s1", "/status").Data.(Status); s.Window.Tokens != 128_000 || s.Window.Used == 0 || s.Window.Origin == "" {
		t.Errorf("got %+v", s.Window)
	}
}

func TestStopEndsTheTurnWithItsRows(t *testing.T) {
	h := newHouse(t)
	if reply := h.run("s1", "/stop"); !strings.Contains(reply.Text, "Nothing runs") {
		t.Errorf("got %+v", reply)
	}
	ended := h.wedged("s1")
	if reply := h.run("s1", "/STOP please"); !strings.Contains(reply.Text, "Stopped") {
		t.Errorf("got %+v", reply)
	}
	if r := received(t, ended); r.ExitReason != "interrupted(stop)" || !strings.Contains(h.texts("s1"), "Stopped by the user") {
		t.Errorf("%+v: %s", r, h.texts("s1"))
	}
}

func TestQueueWaitsBehindATurnAndIsSaidAtOnceWithoutOne(t *testing.T) {
	h := newHouse(t)
	reply := h.run("s1", "/queue do this")
	if reply.Say == nil || reply.Say.Text != "do this" {
		t.Fatalf("got %+v", reply)
	}
	if err := h.refused("s1", "/queue"); !problem.Is(err, problem.Invalid) || !strings.Contains(err.Error(), "/queue TEXT") {
		t.Errorf("without a text: %v", err)
	}
	release, done := make(chan struct{}), make(chan struct{})
	hold := newHouse(t, fakellm.Text{Text: "first", Gate: release}, fakellm.Text{Text: "second"})
	go func() {
		defer close(done)
		_, _ = hold.g.Say(context.Background(), gateway.Say{Session: "s1", Source: gateway.SourceAPI, Text: "a"}, nil)
	}()
	if _, err := hold.llm.Wait(soon(t), 1); err != nil {
		t.Fatal(err)
	}
	if reply := hold.run("s1", "/queue b"); reply.Say != nil || !strings.Contains(reply.Text, "place 1") {
		t.Errorf("got %+v", reply)
	}
	close(release)
	received(t, done)
	if _, err := hold.llm.Wait(soon(t), 2); err != nil {
		t.Fatal(err)
	}
}

func TestResumeBindsTheKeyAndKeepsPeopleApart(t *testing.T) {
	h := newHouse(t, fakellm.Text{Text: "1"}, fakellm.Text{Text: "2"}, fakellm.Text{Text: "3"})
	ann, err := h.g.Say(soon(t), gateway.Say{Key: annsKey, Source: gateway.SourceAPI, Text: "ann's garden"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	bob, err := h.g.Say(soon(t), gateway.Say{Key: "agent:main:telegram:dm::6", Source: gateway.SourceAPI, Text: "bob's garden"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.run(ann.Session, "/title roses")
	next := h.run(ann.Session, "/new")
	for _, name := range []string{bob.Session, "bob"} {
		if err := h.refused(next.Session, "/resume "+name); !problem.Is(err, problem.NotFound) {
			t.Errorf("she reaches %s: %v", name, err)
		}
	}
	if list := h.run(next.Session, "/sessions garden").Text; strings.Contains(list, bob.Session) || !strings.Contains(list, ann.Session) {
		t.Errorf("she sees\n%s", list)
	}
	reply := h.run(next.Session, "/resume ros")
	if reply.Session != ann.Session {
		t.Fatalf("got %+v", reply)
	}
	if again, err := h.g.Say(soon(t), gateway.Say{Key: annsKey, Source: gateway.SourceAPI, Text: "on"}, nil); err != nil || again.Session != ann.Session {
		t.Errorf("the key leads to %s, %v", again.Session, err)
	}
	if all := h.run("cli-1", "/sessions").Text; !strings.Contains(all, bob.Session) || !strings.Contains(all, ann.Session) {
		t.Errorf("whoever holds the key of the API sees all, not\n%s", all)
	}
}

func TestATitleThatIsTakenIsAConflict(t *testing.T) {
	h := newHouse(t, fakellm.Text{Text: "1"}, fakellm.Text{Text: "2"})
	h.say("s1", "a")
	h.say("s2", "b")
	h.run("s1", "/title  the   one ")
	if err := h.refused("s2", "/title the one"); !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), "s1") {
		t.Errorf("got %v", err)
	}
	if reply := h.run("s1", "/title"); !strings.Contains(reply.Text, "the one") {
		t.Errorf("got %+v", reply)
	}
}

func TestARunningTurnIsShownWithTheModelThatAnswers(t *testing.T) {
	h := newHouse(t)
	h.run("s1", "/model other")
	ended := h.wedged("s1")
	if running := h.g.Status().Running; len(running) != 1 || !strings.HasSuffix(running[0].Model, "other") {
		t.Errorf("got %+v", running)
	}
	h.run("s1", "/stop")
	<-ended
}

// default is the configured model for one message, too, and not one that is called so.
func TestTheConfiguredModelMayAnswerOneMessage(t *testing.T) {
	h := newHouse(t, fakellm.Text{Text: "1"}, fakellm.Text{Text: "2"})
	h.run("s", "/model other")
	h.run("s", "/model default --once")
	if s, err := h.store.Settings(t.Context(), "s"); err != nil || s.Once != fakellm.Model {
		t.Errorf("%+v, %v", s, err)
	}
	h.say("s", "hello")
	h.say("s", "again")
	var asked []string
	for _, r := range h.llm.Main() {
		var body struct{ Model string }
		if err := json.Unmarshal(r.Body, &body); err != nil {
			t.Fatal(err)
		}
		asked = append(asked, body.Model)
	}
	if !slices.Equal(asked, []string{fakellm.Model, "other"}) {
		t.Errorf("asked: %q", asked)
	}
}

// What follows a name that takes nothing is not passed over: it may have been meant. /stop stops.
func TestWordsThatACommandDoesNotTakeAreRefused(t *testing.T) {
	h := newHouse(t, fakellm.Text{Text: "1"})
	h.say("s", "hello")
	for line, want := range map[string]string{
		"/retry in French": "takes nothing after its name", "/status of it": "takes nothing", "/usage all": "takes nothing",
		"/help nope": "/nope is no command. There are /new", "/model " + strings.Repeat("x", 300): "of 300 bytes",
		"/title " + strings.Repeat("é", 201): "has 201 characters, and at most 200 fit",
	} {
		if err := h.refused("s", line); !problem.Is(err, problem.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v", line, err)
		}
	}
	if got := h.run("s", "/stop at once").Text; got != "Nothing runs here." || h.texts("s") != "hello|1" {
		t.Errorf("%s; %s", got, h.texts("s"))
	}
	h.run("s", "/title a\x1b[31m\u202e title")
	if got := h.run("s", "/title").Text; got != "This conversation is called a[31m title." {
		t.Errorf("%q", got)
	}
}

// What was to be said into the turn that was stopped is said after it, and counted.
func TestStopCountsWhatWasToBeSaidIntoTheTurn(t *testing.T) {
	h := newHouse(t)
	ended := h.wedged("s")
	h.run("s", "/steer left")
	h.llm.Push(fakellm.Text{Text: "1"})
	if got := h.run("s", "/stop").Text; !strings.Contains(got, "said next: 1 message") {
		t.Error(got)
	}
	received(t, ended)
}
