package gateway

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

func TestAMessageReopensAClosedSessionAndNoOther(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "one"}, fakellm.Text{Text: "two"})
	h.say(Say{Text: "hi"})
	if _, err := h.store.EndSession(t.Context(), "s1", sessiondb.EndClosed); err != nil {
		t.Fatal(err)
	}
	if r := h.say(Say{Text: "again"}); r.Text != "two" {
		t.Errorf("%+v", r)
	}
	if _, err := h.store.EndSession(t.Context(), "s1", sessiondb.EndCompression); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "more"}, nil); !errors.Is(err, sessiondb.ErrSessionEnded) {
		t.Errorf("%v", err)
	}
	if got := shape(h.rows("s1")); got != "user assistant user assistant" {
		t.Error(got)
	}
}

func TestAKeyWhoseSessionEndedAtABoundaryBeginsANewOne(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "one"}, fakellm.Text{Text: "two"})
	first := h.say(Say{Key: "k", Text: "hi"})
	if _, err := h.store.EndSession(t.Context(), first.Session, "new_session"); err != nil {
		t.Fatal(err)
	}
	if second := h.say(Say{Key: "k", Text: "hi"}); second.Session == first.Session {
		t.Error("the ended session was continued")
	}
}

func TestASessionWithoutAPromptGetsTheConfiguredOne(t *testing.T) {
	h := newHouse(t, func(o *Options) { o.SystemPrompt = "the configured prompt" }, fakellm.Text{Text: "one"})
	if _, err := h.store.CreateSession(t.Context(), sessiondb.NewSession{ID: "s1"}); err != nil {
		t.Fatal(err)
	}
	h.say(Say{Text: "hi"})
	if first := string(sentMessages(t, h.llm.Requests()[0])[0]); !strings.Contains(first, "the configured prompt") {
		t.Error(first)
	}
}

func TestThePromptOfASessionSurvivesAChangeOfTheConfiguration(t *testing.T) {
	h := newHouse(t, func(o *Options) { o.SystemPrompt = "old" }, fakellm.Text{Text: "one"}, fakellm.Text{Text: "two"})
	h.say(Say{Text: "hi"})
	h.restart(func(o *Options) { o.SystemPrompt = "new" })
	h.say(Say{Text: "again"})
	requests := h.llm.Requests()
	if a, b := sentMessages(t, requests[0])[0], sentMessages(t, requests[1])[0]; string(a) != string(b) {
		t.Errorf("%s became %s", a, b)
	}
}

func TestCallsInAClientsHistoryAreStoredAndSent(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "one"})
	h.say(Say{Text: "and?", History: []provider.Message{
		{Role: "system", Content: "not a row"},
		{Role: "user", Content: "weather?"},
		{Role: "assistant", ToolCalls: []provider.ToolCall{{ID: "c1", Name: "weather", Arguments: `{"at":"here"}`}}},
		{Role: "tool", ToolCallID: "c1", Content: "rain"},
		{Role: "assistant", Content: "it rains"},
	}})
	if got := shape(h.rows("s1")); got != "user/history assistant+1/history tool/history assistant/history user assistant" {
		t.Error(got)
	}
	body := string(h.llm.Requests()[0].Body)
	for _, want := range []string{`"c1"`, `rain`, `{\"at\":\"here\"}`} {
		if !strings.Contains(body, want) {
			t.Errorf("the request lacks %s: %s", want, body)
		}
	}
}

func TestAnOldConfirmationIsNotSentAfterARestart(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "again?"})
	if _, err := h.store.CreateSession(t.Context(), sessiondb.NewSession{ID: "s1", Prompt: "p"}); err != nil {
		t.Fatal(err)
	}
	l := deadLease(t, h)
	old := time.Now().Add(-2 * time.Minute)
	if _, err := h.store.Append(t.Context(), l, []sessiondb.NewMessage{
		{Role: roleUser, Content: "clean up", CreatedAt: old},
		{Role: roleAssistant, Content: "delete everything?", CreatedAt: old},
		{Role: roleUser, Content: "yes, please", CreatedAt: old},
	}); err != nil {
		t.Fatal(err)
	}
	got, err := h.Recover(soon(t))
	if err != nil || len(got) != 1 || !got[0].Withdrawn {
		t.Fatalf("%+v, %v", got, err)
	}
	h.say(Say{Text: "what happened?"})
	if body := string(h.llm.Requests()[0].Body); strings.Contains(body, "yes, please") || !strings.Contains(body, "has expired") {
		t.Error(body)
	}
	if rows := h.rows("s1"); rows[2].Content != "yes, please" {
		t.Errorf("what the person wrote is shown as it was: %q", rows[2].Content)
	}
}

// deadLease is the turn lease of s1 in the hands of a process that is no more.
func deadLease(t *testing.T, h *house) sessiondb.Lease {
	t.Helper()
	holder, err := sessiondb.SelfHolder(daemonLabel + "turn_dead")
	if err != nil {
		t.Fatal(err)
	}
	holder.Start++
	l, err := h.store.AcquireTurn(t.Context(), "s1", holder, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestARepairThatFailedIsToldAndTriedAgainByTheNextMessage(t *testing.T) {
	h := newHouse(t, with(fake{name: "look", readOnly: true}), fakellm.Text{Text: "one"})
	deadTurn(t, h, true, func(*sessiondb.Holder) {})
	h.spy.repair = func() error { return errDisk }
	got, err := h.Recover(soon(t))
	if err != nil || len(got) != 1 || !errors.Is(got[0].Err, errDisk) {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "hi"}, nil); !problem.Is(err, problem.Full) {
		t.Errorf("%v", err)
	}
	h.spy.repair = nil
	h.say(Say{Text: "hi"})
	if got := shape(h.rows("s1")); got != "user assistant/closing user assistant" {
		t.Error(got)
	}
}

func TestARowThatChangedMeanwhileIsLookedAtAgain(t *testing.T) {
	h := newHouse(t, with(fake{name: "look", readOnly: true}))
	deadTurn(t, h, true, func(*sessiondb.Holder) {})
	tries := 0
	h.spy.repair = func() error {
		if tries++; tries == 1 {
			return &problem.Error{Kind: problem.Conflict, Err: sessiondb.ErrRowChanged}
		}
		return nil
	}
	if got, err := h.Recover(soon(t)); err != nil || len(got) != 1 || got[0].Err != nil || tries != 2 {
		t.Errorf("%+v, %v after %d tries", got, err, tries)
	}
}
