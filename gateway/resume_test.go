package gateway

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"

	"pgregory.net/rapid"
)

// cut marks the last n results of a transcript as cut short.
func cut(rows []sessiondb.Message, n int) []sessiondb.Message {
	for i := len(rows) - n; i < len(rows); i++ {
		rows[i].Kind = kindInterrupted
	}
	return rows
}

func TestResumeDecidesFromTheRowsAlone(t *testing.T) {
	for _, c := range []struct {
		name string
		rows []sessiondb.Message
		want string
	}{
		{"nothing said yet", transcript("user a"), "user assistant/checkpoint user/resumed"},
		{"between two requests", transcript("user a", "assistant+x ", "tool:x r"), "user assistant+1 tool user/resumed"},
		{"dangling call with an effect", transcript("user a", "assistant+x "), "user assistant+1 tool/repair user/resumed"},
		{"dangling read-only call is dropped", transcript("user a", "assistant+x? "), "user assistant/checkpoint user/resumed"},
		{"partly answered", transcript("user a", "assistant+x,y ", "tool:y r"), "user assistant+2 tool tool/repair user/resumed"},
		{"interrupted reads are dropped", cut(transcript("user a", "assistant+x?,y? ", "tool:x r", "tool:y r"), 1), "user assistant/checkpoint user/resumed"},
		{"interrupted effects are kept", cut(transcript("user a", "assistant+x,y? ", "tool:x r", "tool:y r"), 1), "user assistant+2 tool tool/interrupted user/resumed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, ok := planResume(c.rows, "turn_x", time.Now())
			if got := shape(applied(c.rows, r.repair)); !ok || got != c.want {
				t.Errorf("%v %s, want %s", ok, got, c.want)
			}
		})
	}
	for _, whole := range [][]string{{"user a", "assistant b"}, nil} {
		if _, ok := planResume(transcript(whole...), "turn_x", time.Now()); ok {
			t.Errorf("%q goes on", whole)
		}
	}
	if _, ok := planResume(transcript("user a"), "turn_y", time.Now()); ok {
		t.Error("a turn goes on in another one's rows")
	}
}

func TestResumeIsIdempotentAndOnlyAppendsMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := drawRows(t)
		r, ok := planResume(rows, "turn_x", time.Now())
		if !ok {
			return
		}
		after := applied(rows, r.repair)
		for i := range after {
			after[i].TurnID = "turn_x"
		}
		if again, _ := planResume(after, "turn_x", time.Now()); !again.empty() {
			t.Fatalf("a second resume of %s: %+v", shape(after), again)
		}
	})
}

func TestAResumedTurnTakesNoOldConfirmationForAFreshOne(t *testing.T) {
	now := time.Now()
	rows := transcript("user yes", "assistant+x ", "tool:x r")
	rows[0].CreatedAt = now.Add(-2 * time.Minute)
	if r, _ := planResume(rows, "turn_x", now); r.withdraw == nil || r.withdraw.ID != rows[0].ID {
		t.Errorf("%+v", r)
	}
}

func TestADetachedTurnThatAStopCutsOffGoesOnAndABoundOneIsClosed(t *testing.T) {
	for name, c := range map[string]struct {
		detached bool
		aside    string
		end      string
	}{
		"detached": {true, "user assistant/checkpoint", "user assistant/checkpoint user/resumed assistant"},
		"bound":    {false, "user assistant/closing", "user assistant/closing"},
	} {
		t.Run(name, func(t *testing.T) {
			gate := make(chan struct{})
			h := newHouse(t, nil, fakellm.Text{Text: "half of it is there", ChunkChars: 5, Gate: gate})
			shown := make(chan struct{}, 16)
			results := make(chan Result, 1)
			go func() {
				r, _ := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "go", Detached: c.detached}, func(e Event) {
					if e.Kind == EventDelta {
						shown <- struct{}{}
					}
				})
				results <- r
			}()
			gate <- struct{}{}
			<-shown
			h.stop()
			if r := <-results; !r.Interrupted || !strings.HasPrefix(r.Text, "half ") {
				t.Errorf("%+v", r)
			}
			if got := shape(h.rows("s1")); got != c.aside {
				t.Errorf("put aside: %s", got)
			}
			h.llm.Push(fakellm.Text{Text: "and the rest"})
			h.restart(nil)
			found, err := h.Recover(soon(t))
			if err != nil || (len(found) == 1) != c.detached {
				t.Fatalf("%+v, %v", found, err)
			}
			if c.detached {
				if found[0].Decision != DecisionResumed || found[0].Attempts != 1 {
					t.Errorf("a turn that was left in order counts: %+v", found[0])
				}
				until(t, h, "resumed", func(s Status) bool { return s.Turns == 1 })
			}
			if got := shape(h.rows("s1")); got != c.end {
				t.Errorf("%s, want %s", got, c.end)
			}
			if left, err := h.store.Pendings(t.Context()); err != nil || len(left) != 0 {
				t.Errorf("pending: %+v, %v", left, err)
			}
			if c.detached && h.Receipt().Turns[0].Decision != DecisionResumed {
				t.Errorf("receipt: %+v", h.Receipt())
			}
		})
	}
}

func TestAPutAsideTurnThatIsNotResumedIsExplained(t *testing.T) {
	gate := make(chan struct{})
	h := newHouse(t, nil, fakellm.Text{Text: "half of it is there", ChunkChars: 5, Gate: gate})
	if _, err := h.Post(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "go"}); err != nil {
		t.Fatal(err)
	}
	shown := make(chan struct{}, 16)
	ctx, leave := orderly(t)
	go func() {
		_ = h.Watch(ctx, "s1", func(e Event) {
			if e.Kind == EventDelta {
				shown <- struct{}{}
			}
		})
	}()
	gate <- struct{}{}
	<-shown
	leave()
	h.stop()
	h.restart(func(o *Options) { o.ResumeFresh = time.Nanosecond })
	found, err := h.Recover(soon(t))
	if err != nil || len(found) != 1 || found[0].Decision != DecisionClosed {
		t.Fatalf("%+v, %v", found, err)
	}
	rows := h.rows("s1")
	last := rows[len(rows)-1]
	if shape(rows) != "user assistant/closing" || !strings.HasPrefix(last.Content, "half ") || !strings.Contains(last.Content, "not gone on with") {
		t.Errorf("%s: %q", shape(rows), last.Content)
	}
	if slices.ContainsFunc(rows, func(m sessiondb.Message) bool { return m.Kind == kindCheckpoint }) {
		t.Error("the checkpoint is still there")
	}
}
