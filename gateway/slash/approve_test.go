package slash

import (
	"context"
	"strings"
	"testing"

	"gatewayd/gateway"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/problem"
)

// asking begins a turn whose tool asks, and gives what is asked and how the turn ends.
func (h *house) asking(session string) (asked gateway.Approval, ended <-chan gateway.Result) {
	h.t.Helper()
	h.llm.Push(fakellm.ToolCall{Name: "terminal", Args: map[string]string{"command": "rm -rf build"}}, fakellm.Text{Text: "so be it"})
	questions, out := make(chan gateway.Approval, 1), make(chan gateway.Result, 1)
	go func() {
		r, _ := h.g.Say(context.Background(), gateway.Say{Session: session, Source: gateway.SourceCLI, Text: "install it"}, func(e gateway.Event) {
			if e.Kind == gateway.EventApproval {
				questions <- *e.Approval
			}
		})
		out <- r
	}()
	return received(h.t, questions), out
}

func TestApproveAndDenyDecideWhatIsAsked(t *testing.T) {
	for line, ran := range map[string]int32{"/approve": 1, "/deny": 0, "/approve session": 1, "yes": 1, "No.": 0} {
		h := newHouse(t)
		asked, ended := h.asking("s1")
		if s, _ := h.run("s1", "/status").Data.(Status); len(s.Asked) != 1 || s.Asked[0].ID != asked.ID {
			t.Errorf("/status says %+v", s.Asked)
		}
		if err := h.refused("other", "/approve "+asked.ID); !problem.Is(err, problem.NotFound) {
			t.Errorf("from another conversation: %v", err)
		}
		if err := h.refused("s1", "/approve nothing-such"); !problem.Is(err, problem.NotFound) || !strings.Contains(err.Error(), asked.ID) {
			t.Errorf("another id: %v", err)
		}
		h.run("s1", line)
		if r := received(t, ended); !r.Completed || h.ran.Load() != ran {
			t.Errorf("%s: %d commands ran, %+v", line, h.ran.Load(), r)
		}
	}
}

// A yes that nobody waits for is a message.
func TestAPlainYesIsATextWhereNothingIsAsked(t *testing.T) {
	h := newHouse(t)
	if reply, ok, err := h.Run(soon(t), Context{Session: "s1"}, "yes"); ok || err != nil {
		t.Errorf("got %+v %v", reply, err)
	}
	if err := h.refused("s1", "/approve"); !problem.Is(err, problem.NotFound) {
		t.Errorf("got %v", err)
	}
}
