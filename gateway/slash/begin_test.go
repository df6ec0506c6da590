package slash

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"gatewayd/gateway"
	"gatewayd/gateway/route"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

const annsKey = "agent:main:telegram:dm::5"

func TestNewGivesAKeyANewSessionAndResetsWhatWasChosen(t *testing.T) {
	h := newHouse(t, fakellm.Text{Text: "one"}, fakellm.Text{Text: "two"})
	r, err := h.g.Say(soon(t), gateway.Say{Key: annsKey, Source: gateway.SourceAPI, Text: "hello"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.run(r.Session, "/model other")
	h.run(r.Session, "/busy steer")
	reply := h.run(r.Session, "/new a fresh start")
	if reply.Session == r.Session || !strings.Contains(reply.Text, reply.Session) {
		t.Fatalf("got %+v", reply)
	}
	made, err := h.store.Session(t.Context(), reply.Session)
	if err != nil || made.Title != "a fresh start" || made.Key != annsKey {
		t.Errorf("the new one: %+v %v", made, err)
	}
	if got, _ := h.store.Settings(t.Context(), reply.Session); got.Model != "" || got.Busy != "" {
		t.Errorf("what was chosen for the old one holds on: %+v", got)
	}
	if len(h.reset) != 2 { // by /model, and by /new
		t.Errorf("breakers reset: %q", h.reset)
	}
	next, err := h.g.Say(soon(t), gateway.Say{Key: annsKey, Source: gateway.SourceAPI, Text: "again"}, nil)
	if err != nil || next.Session != reply.Session || h.texts(next.Session) != "again|two" {
		t.Errorf("the key leads to %s: %s, %v", next.Session, h.texts(next.Session), err)
	}
	if h.texts(r.Session) != "hello|one" {
		t.Errorf("the old one: %s", h.texts(r.Session))
	}
}

// Two people begin anew at the same time: no key is ever without its session, and both come to the same one.
func TestTwoNewAtOnceAgree(t *testing.T) {
	h := newHouse(t, fakellm.Text{Text: "one"})
	r, err := h.g.Say(soon(t), gateway.Say{Key: annsKey, Source: gateway.SourceAPI, Text: "hello"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	got := make([]string, 2)
	for i := range got {
		both.Go(func() {
			reply, _, err := h.Run(soon(t), Context{Session: r.Session, Source: gateway.SourceCLI}, "/new")
			if got[i] = reply.Session; err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	now, there, err := route.Resolver{Store: h.store}.Look(t.Context(), annsKey)
	if err != nil || !there || got[0] != now.ID || got[1] != now.ID {
		t.Errorf("they got %q, the key leads to %s, %v", got, now.ID, err)
	}
}

func TestNewBesideATurnAsksAndThenEndsItAndDropsWhatWaited(t *testing.T) {
	h := newHouse(t)
	ended := h.wedged("s1")
	if _, err := h.g.Post(soon(t), gateway.Say{Session: "s1", Source: gateway.SourceAPI, Text: "later", Detached: true}); err != nil {
		t.Fatal(err)
	}
	asked := h.run("s1", "/new")
	if asked.Session != "s1" || !strings.Contains(asked.Text, "/new now") {
		t.Errorf("it did not ask: %+v", asked)
	}
	if _, busy := h.running("s1"); !busy {
		t.Error("the turn is over before it was confirmed")
	}
	reply := h.run("s1", "/new now")
	if r := received(t, ended); r.ExitReason != "interrupted(stop)" {
		t.Errorf("the turn: %+v", r)
	}
	if reply.Session == "s1" || !strings.Contains(reply.Text, "dropped: 1") {
		t.Errorf("got %+v", reply)
	}
	if old, err := h.store.Session(t.Context(), "s1"); err != nil || old.EndReason != sessiondb.EndNew {
		t.Errorf("the old one: %+v %v", old, err)
	}
	if waiting, err := h.store.Inbox(t.Context(), "s1"); err != nil || len(waiting) > 0 {
		t.Errorf("it waits still: %v %v", waiting, err)
	}
	if got := h.texts("s1"); !strings.HasPrefix(got, "hang|") || strings.Contains(got, "later") {
		t.Errorf("the old one: %s", got)
	}
	if n := len(h.llm.Requests()); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}

func TestUndoTakesBackExchangesAndNeverMoreThanThereAre(t *testing.T) {
	h := newHouse(t, fakellm.Text{Text: "1"}, fakellm.Text{Text: "2"}, fakellm.Text{Text: "3"})
	for _, text := range []string{"a", "b", "c"} {
		h.say("s1", text)
	}
	if err := h.refused("s1", "/undo 4"); !errors.Is(err, sessiondb.ErrRewindTarget) || !strings.Contains(err.Error(), "has 3") {
		t.Errorf("out of range: %v", err)
	}
	for _, bad := range []string{"/undo 0", "/undo -1", "/undo two"} {
		if err := h.refused("s1", bad); !problem.Is(err, problem.Invalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if got := h.texts("s1"); got != "a|1|b|2|c|3" {
		t.Fatalf("a refused one changed it: %s", got)
	}
	h.run("s1", "/undo 2")
	if got := h.texts("s1"); got != "a|1" {
		t.Errorf("got %s", got)
	}
	h.run("s1", "/undo")
	if err := h.refused("s1", "/undo"); !errors.Is(err, sessiondb.ErrRewindTarget) {
		t.Errorf("nothing is left: %v", err)
	}
	if err := h.refused("nobody", "/undo"); !problem.Is(err, problem.NotFound) {
		t.Errorf("nobody's: %v", err)
	}
}

func TestRetryGivesTheSameTextToSayAgain(t *testing.T) {
	h := newHouse(t, fakellm.Text{Text: "bad"}, fakellm.Text{Text: "good"})
	h.say("s1", "what?")
	reply := h.run("s1", "/retry")
	if reply.Say == nil || reply.Say.Text != "what?" || h.texts("s1") != "" {
		t.Fatalf("got %+v, %q is left", reply.Say, h.texts("s1"))
	}
	if _, err := h.g.Say(soon(t), *reply.Say, nil); err != nil || h.texts("s1") != "what?|good" {
		t.Errorf("said again: %q, %v", h.texts("s1"), err)
	}
}

// What changes a transcript waits for nobody's turn: it is refused, and says what to do.
func TestCommandsThatChangeATranscriptAreRefusedBesideATurn(t *testing.T) {
	h := newHouse(t, fakellm.Text{Text: "1"})
	h.say("s1", "a")
	ended := h.wedged("s1")
	before := h.texts("s1")
	for _, c := range Commands() {
		if c.Busy != Idle {
			continue
		}
		if err := h.refused("s1", "/"+c.Name); !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), "/stop") {
			t.Fatalf("/%s: %v", c.Name, err)
		}
	}
	if got := h.texts("s1"); got != before {
		t.Errorf("the transcript changed: %s", got)
	}
	h.run("s1", "/stop")
	received(t, ended)
}
