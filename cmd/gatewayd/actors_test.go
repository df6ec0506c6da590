package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oklog/run"
)

// ending records the order in which actors returned.
type ending struct {
	mu    sync.Mutex
	names []string
}

func (e *ending) note(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names = append(e.names, name)
}

func (e *ending) actor(name string, outlasts bool) actor {
	return actor{name: name, outlasts: outlasts, run: func(ctx context.Context) error {
		<-ctx.Done()
		e.note(name)
		return nil
	}}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// What others stand on ends after them, whoever fails first: 200 rounds, because the group itself keeps no order.
func TestWhatOthersNeedEndsLast(t *testing.T) {
	for _, failing := range []string{"first", "middle", "base", "last"} {
		for range 50 {
			var e ending
			actors := []actor{e.actor("first", false), e.actor("middle", false), e.actor("base", true), e.actor("last", true)}
			at := slices.IndexFunc(actors, func(a actor) bool { return a.name == failing })
			broken := errors.New("broken")
			actors[at].run = func(context.Context) error { return broken }

			var g run.Group
			ended := lineup(&g, quiet(), actors)
			if err := g.Run(); !errors.Is(err, broken) {
				t.Fatalf("%s failed, the group says %v", failing, err)
			}
			ended.Wait()
			want := slices.DeleteFunc([]string{"base", "last"}, func(n string) bool { return n == failing })
			got := slices.DeleteFunc(slices.Clone(e.names), func(n string) bool { return n == "first" || n == "middle" })
			if !slices.Equal(got, want) {
				t.Fatalf("%s failed: %v ended in this order, want %v", failing, got, want)
			}
			if last := slices.Index(e.names, want[0]); last != len(e.names)-len(want) {
				t.Fatalf("%s failed: %v, and %s overtook somebody who needs it", failing, e.names, want[0])
			}
		}
	}
}

// An interrupt may come before execute has begun, and twice.
func TestInterruptBeforeExecute(t *testing.T) {
	before := make(chan struct{})
	close(before)
	m := &member{
		log: quiet(), stop: make(chan struct{}), before: before, done: make(chan struct{}),
		actor: actor{name: "a", run: func(ctx context.Context) error { <-ctx.Done(); return nil }},
	}
	m.interrupt(nil)
	m.interrupt(nil)
	if err := m.execute(); err != nil {
		t.Fatal(err)
	}
	<-m.done
}

// A claim that is not true makes the demo fail and is named.
func TestDemoNamesTheClaimThatFailed(t *testing.T) {
	var out strings.Builder
	d := &demo{out: &out}
	d.claim(true, "water is wet")
	d.claim(false, "%d and %d is 5", 2, 2)
	if code := exitCode(d.summary()); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(out.String(), "1 of 2 claims true") || !strings.Contains(out.String(), "FAILED: 2 and 2 is 5") {
		t.Error(out.String())
	}
	empty := &demo{out: &out}
	if exitCode(empty.summary()) != exitFailed {
		t.Error("a demo that proved nothing passed")
	}
}
