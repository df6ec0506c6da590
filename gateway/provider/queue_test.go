package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// crowd makes callers wait at a gate in a known order and notes the order in which they are let in. It lives in a bubble.
type crowd struct {
	gate Gate
	mu   sync.Mutex
	in   []string
	wg   sync.WaitGroup
}

// arrive lets n calls of a caller queue up, one after the other; each stays for a second.
func (c *crowd) arrive(caller Caller, n int) {
	for i := range n {
		c.wg.Go(func() {
			permit, err := c.gate.Enter(context.Background(), caller, nil)
			if err != nil {
				return
			}
			c.mu.Lock()
			c.in = append(c.in, fmt.Sprintf("%s%d", caller.Session, i+1))
			c.mu.Unlock()
			time.Sleep(time.Second)
			permit.Leave()
		})
		synctest.Wait()
	}
}

func (c *crowd) order() string {
	c.wg.Wait()
	return strings.Join(c.in, " ")
}

func TestClassesTakeTurnsAndNoSessionStarvesAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{gate: NewGate("k", Limits{Concurrent: 1})}
		c.arrive(Caller{CallerWorker, "w"}, 5)
		c.arrive(Caller{CallerChat, "a"}, 3)
		c.arrive(Caller{CallerChat, "b"}, 1)
		c.arrive(Caller{CallerAux, "x"}, 1)
		c.arrive(Caller{CallerWorker, "v"}, 1)
		// w1 is in before anybody waits; then chat, aux and worker in turn, in each the session that was not served yet
		if got, want := c.order(), "w1 a1 x1 v1 b1 w2 a2 w3 a3 w4 w5"; got != want {
			t.Errorf("served %s\nwant   %s", got, want)
		}
		if s := c.gate.Stats(); s.Inside != 0 || len(s.Waiting) != 0 || s.Through != 11 {
			t.Errorf("%+v", s)
		}
	})
}

// However many new ones come, who waits gets its turn: a program that asks once for each of a thousand things starves no chat.
func TestNewSessionsDoNotStarveOldOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{gate: NewGate("k", Limits{Concurrent: 1})}
		c.arrive(Caller{CallerChat, "old"}, 1)
		c.arrive(Caller{CallerChat, "one"}, 1)
		c.arrive(Caller{CallerChat, "old"}, 1)
		time.Sleep(time.Second / 2) // between two turns
		for i := range 9 {
			c.arrive(Caller{CallerChat, fmt.Sprintf("new%d-", i)}, 1)
			time.Sleep(time.Second)
		}
		if got := c.order(); !strings.HasPrefix(got, "old1 one1 new0-1 old1 new1-1 ") {
			t.Errorf("served %s", got)
		}
	})
}

// Telling a place costs each of them something each time; it must not cost all of them by all.
func TestAThousandMayWait(t *testing.T) {
	gate := NewGate("k", Limits{Concurrent: 1})
	first, _ := gate.Enter(t.Context(), Caller{}, nil)
	begun := time.Now()
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			if permit, err := gate.Enter(t.Context(), Caller{CallerWorker, fmt.Sprint(i % 300)}, func(Place) {}); err == nil {
				permit.Leave()
			}
		})
	}
	first.Leave()
	wg.Wait()
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("a thousand calls took %s at the gate", took)
	}
	if s := gate.Stats(); s.Inside != 0 || s.Through != 1001 || len(s.Waiting) != 0 {
		t.Errorf("%+v", s)
	}
}

func TestAtMostSoManyAreInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := NewGate("k", Limits{Concurrent: 3})
		var inside, most, through int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				permit, err := gate.Enter(t.Context(), Caller{Session: fmt.Sprint(i % 7)}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				inside++
				most, through = max(most, inside), through+1
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				inside--
				mu.Unlock()
				permit.Leave()
				permit.Leave() // giving it back twice gives nothing
			})
		}
		wg.Wait()
		if most != 3 || through != 40 {
			t.Errorf("%d inside at once, %d through", most, through)
		}
	})
}

func TestNoMinuteHasMoreCallsThanAreAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := NewGate("k", Limits{PerMinute: 4})
		var begun []time.Time
		for range 13 {
			permit, err := gate.Enter(t.Context(), Caller{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			begun = append(begun, time.Now())
			permit.Leave()
			time.Sleep(3 * time.Second)
		}
		for i := range begun {
			if i >= 4 && begun[i].Sub(begun[i-4]) < time.Minute {
				t.Errorf("call %d came %s after the fourth before it", i, begun[i].Sub(begun[i-4]))
			}
		}
	})
}

func TestTheProvidersWaitIsEverybodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, start := NewGate("k", Limits{}), time.Now()
		gate.Hold(start.Add(20 * time.Second))
		gate.Hold(start.Add(5 * time.Second)) // an earlier word does not shorten a later one
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if permit, err := gate.Enter(t.Context(), Caller{}, nil); err != nil || time.Since(start) != 20*time.Second {
					t.Errorf("%v after %s", err, time.Since(start))
				} else {
					permit.Leave()
				}
			})
		}
		synctest.Wait()
		if s := gate.Stats(); len(s.Waiting) != 3 || s.HeldUntil.IsZero() {
			t.Errorf("%+v", s)
		}
		wg.Wait()
	})
}

func TestAWaitingCallKnowsItsPlaceAndMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := NewGate("k", Limits{Concurrent: 1})
		first, _ := gate.Enter(t.Context(), Caller{Session: "a"}, nil)
		var places []string
		left := errors.New("left")
		ctx, leave := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			permit, err := gate.Enter(t.Context(), Caller{Session: "b"}, nil)
			if err == nil {
				time.Sleep(2 * time.Second)
				permit.Leave()
			}
		})
		synctest.Wait()
		wg.Go(func() {
			_, err := gate.Enter(ctx, Caller{Session: "c"}, func(p Place) {
				if text := fmt.Sprintf("%d/%d", p.Position, p.Waiting); len(places) == 0 || places[len(places)-1] != text {
					places = append(places, text)
				}
			})
			if !errors.Is(err, left) {
				t.Errorf("left with %v", err)
			}
		})
		synctest.Wait()
		time.Sleep(1500 * time.Millisecond)
		first.Leave()
		time.Sleep(1500 * time.Millisecond)
		leave(left)
		wg.Wait()
		if got := strings.Join(places, " "); got != "2/2 1/1" {
			t.Errorf("was told %s", got)
		}
		if s := gate.Stats(); s.Inside != 0 || len(s.Waiting) != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAPlaceIsToldToAPersonAfterAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := NewGate("k", Limits{Concurrent: 1})
		first, _ := gate.Enter(t.Context(), Caller{}, nil)
		w := &wire{serve: nil}
		c := timed(t, w, Options{Gate: gate})
		s := newSeen()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = c.Complete(ctx, ask, s.sink) })
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		s.mu.Lock()
		if n := len(s.deltas); n != 0 {
			t.Errorf("%d deltas before a second was over", n)
		}
		s.mu.Unlock()
		time.Sleep(40 * time.Second)
		synctest.Wait()
		cancel()
		wg.Wait()
		first.Leave()
		notices, signs := 0, 0
		for _, d := range s.deltas {
			if strings.Contains(d.Notice, "place 1 of 1") {
				notices++
			}
			if d == (Delta{}) {
				signs++
			}
		}
		if notices != 1 || signs < 30 || w.calls != 0 {
			t.Errorf("%d notices, %d signs of life, %d calls", notices, signs, w.calls)
		}
	})
}
