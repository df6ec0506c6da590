package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatewayd/internal/fakellm"
)

// scripted is a model that fails and answers as it is told.
type scripted struct {
	name   string
	window int
	calls  int
	answer func(call int, sink func(Delta)) error
}

func (s *scripted) Describe() Description {
	return Description{Name: s.name, Provider: s.name + ".example", ContextLength: s.window}
}

func (s *scripted) Complete(_ context.Context, _ Request, sink func(Delta)) (Response, error) {
	s.calls++
	if err := s.answer(s.calls, sink); err != nil {
		return Response{}, err
	}
	emit(sink, Delta{Text: "from " + s.name})
	return Response{Text: "from " + s.name}, nil
}

func fails(class Class) func(int, func(Delta)) error {
	return func(int, func(Delta)) error { return &Error{Class: class, Message: "no", Attempts: 1} }
}

func works(int, func(Delta)) error { return nil }

func TestAnotherModelAnswersWhereThatMayHelp(t *testing.T) {
	for class, falls := range map[Class]bool{
		RateLimit: true, UpstreamLimit: true, Billing: true, Auth: true, ModelNotFound: true, ContentPolicy: true, Overloaded: true, ServerError: true, Timeout: true, Transport: true,
		Breaker: true, Unknown: true, FormatError: false, ContextOverflow: false, PayloadTooLarge: false, Interrupted: false,
	} {
		a, b := &scripted{name: "a", answer: fails(class)}, &scripted{name: "b", answer: works}
		s := newSeen()
		got, err := Chain(a, b).Complete(t.Context(), ask, s.sink)
		if falls != (err == nil) || falls && (got.Provider != "b.example" || s.text() != "from b") || b.calls != map[bool]int{true: 1}[falls] {
			t.Errorf("%s: %+v, %v, %d calls of b", class, got, err, b.calls)
		}
		told := false
		for _, d := range s.deltas {
			told = told || strings.Contains(d.Notice, "b at b.example does")
		}
		if told != falls {
			t.Errorf("%s: the switch was told: %v", class, told)
		}
	}
}

func TestTheNextCallBeginsAtTheFirstModelAgain(t *testing.T) {
	a := &scripted{name: "a", answer: func(call int, _ func(Delta)) error {
		if call == 1 {
			return &Error{Class: ServerError, Message: "no"}
		}
		return nil
	}}
	chain := Chain(a, &scripted{name: "b", answer: works})
	for _, want := range []string{"from b", "from a"} {
		if got, err := chain.Complete(t.Context(), ask, nil); err != nil || got.Text != want {
			t.Errorf("%q, %v; want %q", got.Text, err, want)
		}
	}
}

func TestARateLimitBenchesAModelLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &scripted{name: "a", answer: fails(RateLimit)}
		chain := Chain(a, &scripted{name: "b", answer: works})
		ask := func() string {
			got, err := chain.Complete(t.Context(), ask, nil)
			if err != nil {
				t.Fatal(err)
			}
			return got.Text
		}
		want := 0
		for i, bench := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
			want++
			if got := ask(); got != "from b" || a.calls != want {
				t.Fatalf("round %d: %s, %d calls of a, want %d", i, got, a.calls, want)
			}
			time.Sleep(bench - time.Second)
			if ask(); a.calls != want {
				t.Fatalf("round %d: a was asked while benched", i)
			}
			time.Sleep(time.Second)
		}
		a.answer = works
		if got := ask(); got != "from a" {
			t.Errorf("after the bench: %s", got)
		}
		a.answer = fails(RateLimit)
		ask()
		time.Sleep(time.Minute)
		before := a.calls
		if ask(); a.calls != before+1 {
			t.Error("an answer did not forget the long bench")
		}
		if a.answer = works; true {
			Reset(chain)
		}
		if got := ask(); got != "from a" {
			t.Errorf("after a reset: %s", got)
		}
	})
}

func TestShownTextEndsTheTryingOfModels(t *testing.T) {
	half := func(_ int, sink func(Delta)) error {
		emit(sink, Delta{Text: "half"})
		return &Error{Class: Transport, Message: "broke", Partial: Response{Text: "half"}}
	}
	b := &scripted{name: "b", answer: works}
	s := newSeen()
	_, err := Chain(&scripted{name: "a", answer: half}, b).Complete(t.Context(), ask, s.sink)
	failed, ok := errors.AsType[*Error](err)
	if !ok || failed.Partial.Text != "half" || b.calls != 0 || s.text() != "half" {
		t.Errorf("%+v, %d calls of b, shown %q", err, b.calls, s.text())
	}
}

func TestTheLastErrorNamesAllModelsAndAttempts(t *testing.T) {
	a, b := fakellm.New(t, fakellm.Error{Status: 500, Message: "ill"}, fakellm.Error{Status: 500, Message: "ill"}), fakellm.New(t, fakellm.Error{Status: 402, Message: "no money"})
	first, _ := clientOf(t, a, func(o *Options) { o.MaxRetries = 1 })
	second, _ := clientOf(t, b)
	_, err := Chain(first, second).Complete(bounded(t), ask, nil)
	failed, ok := errors.AsType[*Error](err)
	if !ok || failed.Class != Billing || failed.Attempts != 3 || !strings.Contains(failed.Message, "ill") || !strings.Contains(failed.Message, "no money") || !strings.Contains(err.Error(), "after 3 attempts") {
		t.Errorf("%v, %+v", err, failed)
	}
	stats := StatsOf(Chain(first, second))
	if len(stats) != 2 || stats[0].Calls != 2 || stats[1].Calls != 1 {
		t.Errorf("counted %+v", stats)
	}
}

// TestWhoStandsByIsAskedSooner counts the calls that a first model costs before the second is asked.
func TestWhoStandsByIsAskedSooner(t *testing.T) {
	for name, c := range map[string]struct {
		failure fakellm.Response
		alone   int
		beside  int
	}{
		"rate limit": {fakellm.Error{Status: 429}, 4, 1},
		"billing":    {fakellm.Error{Status: 402}, 1, 1},
		"transport":  {fakellm.DropMidStream{}, 4, 2},
		"server":     {fakellm.Error{Status: 500}, 4, 4},
		"auth":       {fakellm.Error{Status: 401}, 1, 1},
		"refused":    {fakellm.Error{Status: 400, Message: "no"}, 1, 1},
	} {
		for standby, want := range map[bool]int{false: c.alone, true: c.beside} {
			server := fakellm.Start(fakellm.Options{Each: func(fakellm.Request) fakellm.Response { return c.failure }})
			t.Cleanup(server.Close)
			client, _ := clientOf(t, server)
			models := []Model{client}
			if standby {
				models = append(models, &scripted{name: "b", answer: works})
			}
			_, _ = Chain(models...).Complete(bounded(t), ask, nil)
			if got := len(server.Requests()); got != want {
				t.Errorf("%s, another model stands by: %v: %d calls, want %d", name, standby, got, want)
			}
		}
	}
}

func TestAWindowThatIsTooSmallIsNotAsked(t *testing.T) {
	long := Request{Messages: []Message{{Role: "user", Content: strings.Repeat("word ", 4000)}}}
	small, large := &scripted{name: "small", window: 4000, answer: works}, &scripted{name: "a", answer: fails(ServerError)}
	if _, err := Chain(large, small).Complete(t.Context(), long, nil); err == nil || small.calls != 0 {
		t.Errorf("%v, %d calls", err, small.calls)
	}
	if got, err := Chain(large, small).Complete(t.Context(), ask, nil); err != nil || got.Text != "from small" {
		t.Errorf("%+v, %v", got, err)
	}
	if d := Chain(large, small).Describe(); d.Name != "a" || fmt.Sprint(d.Fallbacks) != "[small at small.example]" {
		t.Errorf("%+v", d)
	}
}
