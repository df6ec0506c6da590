package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// watched is a house whose model and tool note what is in the store at the moment they are reached.
func watched(t *testing.T) (*house, *[]string) {
	var seen []string
	var h *house
	look := func(who string) {
		seen = append(seen, who+" sees: "+shape(rowsOf(t, h.store, "s1")))
	}
	worker := fake{name: "work", run: func(context.Context, tool.Call) tool.Result {
		look("tool")
		h.spy.note("tool runs")
		return tool.Result{Content: "result", Effect: tool.EffectDone}
	}}
	step := func(r fakellm.Response) fakellm.Response {
		return fakellm.Func(func(fakellm.Request) fakellm.Response {
			look("model")
			h.spy.note("model asked")
			return r
		})
	}
	h = newHouse(t, with(worker), step(fakellm.ToolCall{Name: "work", Text: "let me see"}), step(fakellm.Text{Text: "done"}))
	return h, &seen
}

func TestEachRowIsStoredBeforeAnybodyBuildsOnIt(t *testing.T) {
	h, seen := watched(t)
	sink := func(e Event) {
		if e.Kind == EventToolStarted || e.Kind == EventToolFinished {
			h.spy.note("shown %s", e.Kind)
		}
	}
	r, err := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "hello"}, sink)
	h.spy.note("acknowledged")
	if err != nil || !r.Completed || r.Text != "done" || r.SinkDropped {
		t.Fatalf("%+v, %v", r, err)
	}
	if want := []string{
		"model sees: user", "tool sees: user assistant+1", "model sees: user assistant+1 tool",
	}; !slices.Equal(*seen, want) {
		t.Errorf("in the store when it mattered:\n%s", strings.Join(*seen, "\n"))
	}
	// Events are shown from a goroutine of the reader, so only "stored before shown" is certain, not "shown before the next step".
	events := h.spy.events()
	order := slices.DeleteFunc(slices.Clone(events), func(e string) bool { return strings.HasPrefix(e, "shown") })
	if want := []string{
		"stored user", "model asked", "stored assistant+1", "tool runs", "stored tool", "model asked", "stored assistant", "acknowledged",
	}; !slices.Equal(order, want) {
		t.Errorf("order: %s", strings.Join(order, ", "))
	}
	for shown, stored := range map[string]string{"shown tool_started": "stored assistant+1", "shown tool_finished": "stored tool"} {
		if slices.Index(events, shown) < slices.Index(events, stored) {
			t.Errorf("%s before %s: %s", shown, stored, strings.Join(events, ", "))
		}
	}
	if rows := h.rows("s1"); r.LastRow != rows[len(rows)-1].ID || rows[1].Effect != intentPossible || rows[2].Effect != "done" {
		t.Errorf("last row %d, effects %q %q", r.LastRow, rows[1].Effect, rows[2].Effect)
	}
}

// errDisk is a failure as the store words it.
var errDisk = &problem.Error{Kind: problem.Full, Thing: "state.db", What: "could not be written: no space left", Fate: "nothing was stored", Remedy: "free some space"}

func TestATurnStopsWhereItsRowCouldNotBeStored(t *testing.T) {
	for _, c := range []struct {
		point   string
		fails   func(row sessiondb.NewMessage) bool
		begun   bool
		asked   int  // requests the model saw
		ran     bool // the tool ran
		outcome string
		text    string
	}{
		{"P1 user row", func(m sessiondb.NewMessage) bool { return m.Role == roleUser }, false, 0, false, "", ""},
		{"P2 calls", func(m sessiondb.NewMessage) bool { return len(m.ToolCalls) > 0 }, true, 1, false, "user assistant/closing", "could not be stored"},
		{
			"P3 result", func(m sessiondb.NewMessage) bool { return m.Role == roleTool && m.Kind == "" }, true, 1, true,
			"user assistant+1 tool/repair assistant/closing", "could not be stored",
		},
		{"P5 answer", func(m sessiondb.NewMessage) bool { return m.Content == "done" }, true, 2, true, "user assistant+1 tool", "done\n\n[This answer could not be saved"},
	} {
		t.Run(c.point, func(t *testing.T) {
			h, _ := watched(t)
			h.spy.refuse = func(rows []sessiondb.NewMessage) error {
				if slices.ContainsFunc(rows, c.fails) {
					return fmt.Errorf("append: %w", errDisk)
				}
				return nil
			}
			r, err := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "hello"}, nil)
			if (err == nil) != c.begun || (err != nil && problem.KindOf(err) != problem.Full) {
				t.Fatalf("begun: %v", err)
			}
			if n := len(h.llm.Requests()); n != c.asked {
				t.Errorf("the model was asked %d times, want %d", n, c.asked)
			}
			if ran := slices.Contains(h.spy.events(), "tool runs"); ran != c.ran {
				t.Errorf("tool ran: %v", ran)
			}
			if got := shape(h.rows("s1")); got != c.outcome {
				t.Errorf("rows: %s", got)
			}
			if !c.begun {
				return
			}
			if !r.Failed || r.Completed || r.ExitReason != "session_persistence_failed" || r.FinishReason != finishNotStored ||
				r.Error == nil || !errors.Is(r.Error, errDisk) || !strings.Contains(r.Text, c.text) {
				t.Errorf("%+v", r)
			}
			h.spy.refuse = nil
			h.llm.Push(fakellm.Text{Text: "again"})
			h.say(Say{Text: "next"})
			assertWhole(t, h.rows("s1"))
		})
	}
}
