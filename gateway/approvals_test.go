package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatewayd/gateway/keys"
	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// commands is a terminal that runs nothing and counts.
type commands struct{ ran *atomic.Int32 }

func (commands) Spec() provider.ToolSpec       { return provider.ToolSpec{Name: "terminal"} }
func (commands) ReadOnly(json.RawMessage) bool { return false }
func (commands) Permission() tool.Permission   { return tool.NeedsTerminal }
func (commands) Command(call tool.Call) string {
	var args struct{ Command string }
	_ = json.Unmarshal(call.Args, &args)
	return args.Command
}

func (c commands) Run(context.Context, tool.Call) tool.Result {
	c.ran.Add(1)
	return tool.Result{Content: "done", Effect: tool.EffectDone}
}

// asking is a house whose terminal asks.
type asking struct {
	*house
	*Approvals
	ran atomic.Int32
}

func newAsking(t *testing.T, timeout time.Duration, script ...fakellm.Response) *asking {
	a := &asking{}
	a.house = newHouse(t, func(o *Options) { a.options(o, timeout) }, script...)
	return a
}

func (a *asking) options(o *Options, timeout time.Duration) {
	a.Approvals = NewApprovals(o.Store.(*spy).Store, timeout, quiet())
	o.Approvals, o.Tools, o.Terminal = a.Approvals, tool.NewSet(commands{&a.ran}), tool.Ask
}

// sayAsked runs a turn and gives what it asks to decide, which may be nil.
func (a *asking) sayAsked(say Say, decide func(Approval)) Result {
	a.t.Helper()
	say.Source, say.Session = SourceAPI, "s1"
	var deciding sync.WaitGroup
	r, err := a.Say(soon(a.t), say, func(e Event) {
		if e.Kind == EventApproval && decide != nil {
			deciding.Go(func() { decide(*e.Approval) })
		}
	})
	deciding.Wait()
	if err != nil {
		a.t.Fatal(err)
	}
	return r
}

func (a *asking) decide(choice tool.Choice) func(Approval) {
	return func(asked Approval) {
		if _, err := a.Decide(soon(a.t), asked.ID, choice, "test"); err != nil {
			a.t.Error(err)
		}
	}
}

func (a *asking) list() []Approval {
	a.t.Helper()
	list, err := a.List(soon(a.t), sessiondb.ApprovalFilter{})
	if err != nil {
		a.t.Fatal(err)
	}
	slices.Reverse(list)
	return list
}

func remove(dirs ...string) fakellm.Response {
	call := fakellm.ToolCall{Name: "terminal"}
	for i, dir := range dirs {
		args := map[string]any{"command": "rm -rf " + dir}
		if i == 0 {
			call.Args = args
			continue
		}
		call.Parallel = append(call.Parallel, fakellm.ToolCall{Name: "terminal", Args: args})
	}
	return call
}

func TestACallWaitsForAPersonAndRunsWhenApproved(t *testing.T) {
	a := newAsking(t, time.Minute, remove("build"), fakellm.Text{Text: "removed"})
	var asked Approval
	r := a.sayAsked(Say{Text: "clean up"}, func(e Approval) {
		asked = e
		if stored := a.list(); len(stored) != 1 || !stored[0].Pending() || stored[0].ID != e.ID {
			t.Errorf("the record must be there before anybody is asked: %+v", stored)
		}
		if a.ran.Load() != 0 {
			t.Error("it ran before it was approved")
		}
		a.decide(tool.ChoiceOnce)(e)
	})
	if !r.Completed || a.ran.Load() != 1 || !strings.Contains(asked.Effect, "rm -rf build") {
		t.Errorf("%+v, ran %d times, asked %+v", r, a.ran.Load(), asked)
	}
	stored := a.list()
	if len(stored) != 1 || stored[0].State != sessiondb.ApprovalApproved || stored[0].Decision != "once" || stored[0].DecidedBy != "test" || stored[0].DecidedAt == nil || stored[0].Turn != r.TurnID {
		t.Errorf("%+v", stored)
	}
}

// Whoever was asked and did not answer is told that there is nothing to answer any more, before the call's result.
func TestWhoeverIsAskedIsToldOfTheDecision(t *testing.T) {
	a := newAsking(t, time.Minute, remove("build"), fakellm.Text{Text: "removed"})
	var kinds []string
	_, err := a.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "clean up"}, func(e Event) {
		if e.Kind == EventApproval {
			go a.decide(tool.ChoiceSession)(*e.Approval)
		}
		if e.Kind == EventDecided && (e.Approval.Decision != "session" || e.Approval.DecidedBy != "test" || e.CallID == "") {
			t.Errorf("%+v", e.Approval)
		}
		if strings.HasPrefix(string(e.Kind), "tool") || e.Approval != nil {
			kinds = append(kinds, string(e.Kind))
		}
	})
	if got := strings.Join(kinds, " "); err != nil || got != "tool_started approval decided tool_finished" {
		t.Errorf("shown: %s, %v", got, err)
	}
}

func TestWhatNobodyApprovesIsDenied(t *testing.T) {
	a := newAsking(t, 50*time.Millisecond, remove("build"), fakellm.Text{Text: "so be it"})
	r := a.sayAsked(Say{Text: "clean up"}, nil)
	rows := a.rows("s1")
	if !r.Completed || a.ran.Load() != 0 || !strings.Contains(rows[2].Content, "nobody approved it in time") || rows[2].Effect != "none" {
		t.Errorf("%+v, ran %d times, row %q", r, a.ran.Load(), rows[2].Content)
	}
	if stored := a.list(); stored[0].State != sessiondb.ApprovalDenied || stored[0].Decision != "timeout" {
		t.Errorf("%+v", stored)
	}
}

func TestADenialIsWordsForTheModel(t *testing.T) {
	a := newAsking(t, time.Minute, remove("build"), fakellm.Text{Text: "all right"})
	a.sayAsked(Say{Text: "clean up"}, a.decide(tool.ChoiceDeny))
	if rows := a.rows("s1"); a.ran.Load() != 0 || !strings.Contains(rows[2].Content, "the user denied it") {
		t.Errorf("ran %d times, row %q", a.ran.Load(), rows[2].Content)
	}
}

func TestTheFirstDecisionCountsAndTheSecondIsTold(t *testing.T) {
	a := newAsking(t, time.Minute, remove("build"), fakellm.Text{Text: "done"})
	a.sayAsked(Say{Text: "clean up"}, func(asked Approval) {
		var wins atomic.Int32
		var wg sync.WaitGroup
		for _, choice := range []tool.Choice{tool.ChoiceOnce, tool.ChoiceDeny, tool.ChoiceAlways, tool.ChoiceDeny} {
			wg.Go(func() {
				_, err := a.Decide(soon(t), asked.ID, choice, string(choice))
				switch {
				case err == nil:
					wins.Add(1)
				case !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), "was decided already"):
					t.Errorf("the second is told %v", err)
				}
			})
		}
		wg.Wait()
		if wins.Load() != 1 {
			t.Errorf("%d decisions counted", wins.Load())
		}
	})
	approved := a.list()[0].State == sessiondb.ApprovalApproved
	if (a.ran.Load() == 1) != approved {
		t.Errorf("ran %d times, but approved is %v", a.ran.Load(), approved)
	}
	if _, err := a.Decide(soon(t), "nosuchid", tool.ChoiceOnce, "x"); !problem.Is(err, problem.NotFound) {
		t.Errorf("an unknown id: %v", err)
	}
	if _, err := a.Decide(soon(t), a.list()[0].ID, "maybe", "x"); !problem.Is(err, problem.Invalid) {
		t.Errorf("a decision that is none: %v", err)
	}
}

func TestAGrantCoversItsRuleInItsSession(t *testing.T) {
	a := newAsking(t, time.Minute, remove("a"), remove("b"), fakellm.Text{Text: "1"}, remove("c"), fakellm.Text{Text: "2"},
		fakellm.ToolCall{Name: "terminal", Args: map[string]any{"command": "sudo rm -rf d"}}, fakellm.Text{Text: "3"}, remove("e"), fakellm.Text{Text: "4"})
	questions := 0
	answer := func(choice tool.Choice) func(Approval) {
		return func(asked Approval) { questions++; a.decide(choice)(asked) }
	}
	a.sayAsked(Say{Text: "one"}, answer(tool.ChoiceSession))
	a.sayAsked(Say{Text: "two"}, answer(tool.ChoiceDeny))
	if questions != 1 || a.ran.Load() != 3 {
		t.Errorf("%d questions, ran %d times", questions, a.ran.Load())
	}
	a.sayAsked(Say{Text: "three"}, answer(tool.ChoiceDeny)) // another rule beside the granted one
	if questions != 2 || a.ran.Load() != 3 {
		t.Errorf("%d questions, ran %d times", questions, a.ran.Load())
	}
	if err := a.Revoke(soon(t), "s1", "recursive-delete", "test"); err != nil {
		t.Fatal(err)
	}
	a.sayAsked(Say{Text: "four"}, answer(tool.ChoiceDeny))
	if questions != 3 || a.ran.Load() != 3 {
		t.Errorf("%d questions, ran %d times", questions, a.ran.Load())
	}
}

func TestAGrantForAlwaysOutlivesTheProcessUntilItIsRevoked(t *testing.T) {
	a := newAsking(t, time.Minute, remove("a"), fakellm.Text{Text: "1"}, remove("b"), fakellm.Text{Text: "2"}, remove("c"), fakellm.Text{Text: "3"})
	a.sayAsked(Say{Text: "one"}, a.decide(tool.ChoiceAlways))
	a.restart(func(o *Options) { a.options(o, time.Minute) })
	a.sayAsked(Say{Text: "two"}, func(Approval) { t.Error("it was asked again") })
	grants, err := a.Grants(soon(t))
	if err != nil || len(grants) != 1 || grants[0].Session != "" || grants[0].Rule != "recursive-delete" || grants[0].Approval != a.list()[0].ID {
		t.Errorf("%+v %v", grants, err)
	}
	if err := errors.Join(a.Revoke(soon(t), "", "recursive-delete", "test")); err != nil {
		t.Fatal(err)
	}
	if err := a.Revoke(soon(t), "", "recursive-delete", "test"); !problem.Is(err, problem.NotFound) {
		t.Errorf("revoked twice: %v", err)
	}
	a.sayAsked(Say{Text: "three"}, a.decide(tool.ChoiceDeny))
	if a.ran.Load() != 2 {
		t.Errorf("ran %d times", a.ran.Load())
	}
}

func TestAGrantLetsGoOfOthersThatWait(t *testing.T) {
	a := newAsking(t, time.Minute, remove("a", "b", "c"), fakellm.Text{Text: "done"})
	var asked atomic.Int32
	all := make(chan struct{})
	a.sayAsked(Say{Text: "go"}, func(e Approval) {
		if asked.Add(1) == 3 {
			close(all)
		}
		<-all
		if strings.HasSuffix(e.Effect, " a") {
			a.decide(tool.ChoiceSession)(e)
		}
	})
	if a.ran.Load() != 3 {
		t.Errorf("ran %d times", a.ran.Load())
	}
}

func TestAPlainYesCountsOnlyWhileOneCallWaits(t *testing.T) {
	a := newAsking(t, time.Minute, remove("a"), fakellm.Text{Text: "1"}, remove("b", "c"), fakellm.Text{Text: "2"})
	if _, ok, err := a.Answer(soon(t), "s1", "yes", "chat"); ok || err != nil {
		t.Errorf("nothing waits: %v %v", ok, err)
	}
	a.sayAsked(Say{Text: "one"}, func(Approval) {
		for session, text := range map[string]string{"s1": "yes, but first tell me more", "s2": "yes"} {
			if _, ok, err := a.Answer(soon(t), session, text, "chat"); ok || err != nil {
				t.Errorf("%s: %q was taken for an answer", session, text)
			}
		}
		if _, ok, err := a.Answer(soon(t), "s1", " Yes. ", "chat"); !ok || err != nil {
			t.Errorf("a plain yes: %v %v", ok, err)
		}
	})
	if a.ran.Load() != 1 {
		t.Errorf("ran %d times", a.ran.Load())
	}
	var asked atomic.Int32
	a.sayAsked(Say{Text: "two"}, func(e Approval) {
		if asked.Add(1) < 2 {
			return
		}
		if _, ok, _ := a.Answer(soon(t), "s1", "yes", "chat"); ok {
			t.Error("a yes to two questions was taken for an answer")
		}
		for _, id := range a.Waiting("s1") {
			if _, err := a.Decide(soon(t), id, tool.ChoiceDeny, "test"); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAnEndedTurnTakesItsQuestionBack(t *testing.T) {
	a := newAsking(t, time.Minute, remove("build"))
	r := a.sayAsked(Say{Text: "clean up"}, func(Approval) { a.Interrupt("s1", Stop) })
	stored := a.list()
	if !r.Interrupted || a.ran.Load() != 0 || len(stored) != 1 || stored[0].Decision != "turn_ended" || len(a.Waiting("s1")) != 0 {
		t.Errorf("%+v, ran %d times, %+v", r, a.ran.Load(), stored)
	}
}

func TestAQuestionThatCannotBeStoredIsARefusal(t *testing.T) {
	a := newAsking(t, time.Minute)
	d := a.ask(soon(t), tool.Request{Session: "no such session", Rules: []string{"x"}}, func(Approval) { t.Error("it was shown") }, func() {})
	if d.Allows() || !strings.Contains(d.Words, "could not be stored") || len(a.Waiting("no such session")) != 0 {
		t.Errorf("%+v", d)
	}
}

func TestACallThatWaitedWhenTheProcessEndedIsAnsweredAsNotRun(t *testing.T) {
	a := newAsking(t, time.Minute)
	ctx := soon(t)
	session, err := a.house.store.CreateSession(ctx, sessiondb.NewSession{ID: "s1", Source: SourceAPI})
	if err != nil {
		t.Fatal(err)
	}
	holder, err := sessiondb.SelfHolder("test")
	if err != nil {
		t.Fatal(err)
	}
	lease, err := a.house.store.TryTurn(ctx, session.ID, holder, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	calls := marshalCalls([]storedCall{
		{ID: "c1", Type: "function", Function: storedFunction{Name: "terminal", Arguments: "{}"}, Intent: intentPossible},
		{ID: "c2", Type: "function", Function: storedFunction{Name: "terminal", Arguments: "{}"}, Intent: intentPossible},
	})
	_, err = a.house.store.Append(ctx, lease, []sessiondb.NewMessage{
		{TurnID: "t1", Role: roleUser, Content: "clean up"}, {TurnID: "t1", Role: roleAssistant, ToolCalls: calls, Effect: intentPossible},
	})
	if err != nil {
		t.Fatal(err)
	}
	record, err := a.house.store.AskApproval(ctx, sessiondb.Approval{Session: "s1", Turn: "t1", CallID: "c1", Tool: "terminal", Effect: "rm -rf build", Reason: "x", Rules: []string{"recursive-delete"}}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.house.store.Release(ctx, lease); err != nil {
		t.Fatal(err)
	}
	a.llm.Push(fakellm.Text{Text: "what next?"})
	a.restart(func(o *Options) { a.options(o, time.Minute) })
	if _, err := a.Recover(ctx); err != nil {
		t.Fatal(err)
	}
	a.say(Say{Text: "go on"})
	rows := a.rows("s1")
	if !strings.Contains(rows[2].Content, "gatewayd ended before anybody approved it (approval "+record.ID) || rows[2].Effect != "none" {
		t.Errorf("the call that waited: %q, effect %s", rows[2].Content, rows[2].Effect)
	}
	if !strings.Contains(rows[3].Content, "UNKNOWN") {
		t.Errorf("the call that may have run: %q", rows[3].Content)
	}
	if !strings.Contains(rows[4].Content, "effect of 1 tool call") {
		t.Errorf("the closing row: %q", rows[4].Content)
	}
	if stored := a.list(); len(stored) != 1 || stored[0].Decision != "restart" || stored[0].State != sessiondb.ApprovalDenied {
		t.Errorf("%+v", stored)
	}
}

func TestAKeyThatIsNotForApprovalsApprovesNothing(t *testing.T) {
	a := NewApprovals(nil, time.Minute, slog.New(slog.DiscardHandler))
	ctx := keys.With(t.Context(), keys.Caller{Key: keys.Key{Name: "phone", Scopes: []keys.Scope{keys.Chat, keys.Boards}}})
	for _, choice := range []tool.Choice{tool.ChoiceOnce, tool.ChoiceSession, tool.ChoiceAlways} {
		if _, err := a.Decide(ctx, "x", choice, "me"); !problem.Is(err, problem.Denied) {
			t.Errorf("%s: %v", choice, err)
		}
	}
	if err := mayDecide(ctx, tool.ChoiceDeny); err != nil {
		t.Error(err)
	}
	for _, ctx := range []context.Context{t.Context(), keys.With(t.Context(), keys.Socket())} {
		if err := mayDecide(ctx, tool.ChoiceOnce); err != nil {
			t.Error(err)
		}
	}
}
