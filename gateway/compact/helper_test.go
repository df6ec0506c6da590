package compact

import (
	"encoding/json"
	"fmt"
	"strings"

	"gatewayd/sessiondb"
)

// failer is what testing.T and rapid.T have in common.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// talk is a transcript under construction.
type talk struct {
	rows []sessiondb.Message
	id   int64
}

func (k *talk) add(m sessiondb.Message) *talk {
	k.id++
	m.ID, m.Active = k.id, true
	if m.OriginID == 0 {
		m.OriginID = k.id
	}
	k.rows = append(k.rows, m)
	return k
}

func (k *talk) user(text string) *talk { return k.add(sessiondb.Message{Role: "user", Content: text}) }

func (k *talk) answer(text string) *talk {
	return k.add(sessiondb.Message{Role: "assistant", Content: text})
}

// call is a round: so many calls in one answer, and their results.
func (k *talk) call(result string, n int) *talk {
	var calls []call
	for i := range n {
		c := call{ID: fmt.Sprintf("c%d_%d", k.id, i)}
		c.Function.Name, c.Function.Arguments = "terminal", `{"command":"true"}`
		calls = append(calls, c)
	}
	raw, _ := json.Marshal(calls)
	k.add(sessiondb.Message{Role: "assistant", ToolCalls: raw})
	for _, c := range calls {
		k.add(sessiondb.Message{Role: "tool", ToolCallID: c.ID, ToolName: "terminal", Content: result})
	}
	return k
}

// exchange is a question, a round, and an answer of so many tokens.
func (k *talk) exchange(tag string, tokens int) *talk {
	return k.user(tag+"Q").call(tag+"T", 1).answer(tag + "A " + strings.Repeat("word ", tokens*4/5))
}

// apply does to rows what the store does with a plan, and fails where the store would refuse it.
func apply(t failer, rows []sessiondb.Message, p Plan) []sessiondb.Message {
	t.Helper()
	covered := map[int64]bool{}
	for _, id := range p.Covered {
		covered[id] = true
	}
	kept := map[int64]bool{}
	for _, r := range p.Rows {
		kept[r.Keep] = true
	}
	k := &talk{id: rows[len(rows)-1].ID}
	byID := map[int64]sessiondb.Message{}
	begun := false
	for _, m := range rows {
		byID[m.ID] = m
		switch {
		case covered[m.ID] && kept[m.ID]:
			t.Fatalf("row %d is both kept and folded", m.ID)
		case covered[m.ID] || kept[m.ID]:
			begun = true
		case begun:
			t.Fatalf("row %d has no place", m.ID)
		default:
			k.rows = append(k.rows, m)
		}
	}
	last := int64(0)
	for _, r := range p.Rows {
		if r.Keep == 0 {
			n := r.New
			k.add(sessiondb.Message{
				Role: n.Role, Content: n.Content, Wire: n.Wire, Kind: n.Kind, FinishReason: n.FinishReason, ToolCalls: n.ToolCalls, ToolCallID: n.ToolCallID, ToolName: n.ToolName,
			})
			continue
		}
		if r.Keep <= last {
			t.Fatalf("row %d is kept out of order", r.Keep)
		}
		last = r.Keep
		k.add(byID[r.Keep])
	}
	return k.rows
}

// whole checks what must hold of every transcript: roles alternate and each call has one result, behind it.
func whole(t failer, rows []sessiondb.Message) {
	t.Helper()
	last := ""
	for i := 0; i < len(rows); i++ {
		m := rows[i]
		if m.Role == "tool" {
			t.Fatalf("a result without its call: %s", shape(rows))
		}
		if m.Role == last {
			t.Fatalf("two %s rows side by side: %s", m.Role, shape(rows))
		}
		last = m.Role
		calls := callsOf(m)
		for _, c := range calls {
			if i++; i >= len(rows) || rows[i].ToolCallID != c.ID {
				t.Fatalf("call %s has no result: %s", c.ID, shape(rows))
			}
		}
		if len(calls) > 0 {
			last = "tool"
		}
	}
}

// shape is a transcript in one line.
func shape(rows []sessiondb.Message) string {
	var parts []string
	for _, m := range rows {
		switch {
		case IsAsked(m):
			parts = append(parts, fmt.Sprintf("asked(%s)", strings.Join(readAsked(m).Messages, "|")))
		case IsRolling(m):
			parts = append(parts, "rolling("+m.Content+")")
		case IsNotes(m):
			parts = append(parts, "notes("+m.Content+")")
		case len(callsOf(m)) > 0:
			parts = append(parts, "call")
		default:
			parts = append(parts, strings.Fields(m.Content + " .")[0])
		}
	}
	return strings.Join(parts, " ")
}

func same[T comparable](t failer, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\ngot  %v\nwant %v", what, got, want)
	}
}

// small is a budget in which a few exchanges are a full window.
func small(r Rules, window int) Budget { return r.Budget("p", "m", window, 0) }
