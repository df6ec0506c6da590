package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gatewayd/gateway/provider"
	"gatewayd/sessiondb"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// row builds a live row: "user hi", "assistant hi", "assistant+a,b hi" (calls), "tool:a hi" (a result).
func row(id int64, text string) sessiondb.Message {
	head, content, _ := strings.Cut(text, " ")
	m := sessiondb.Message{ID: id, Content: content, Active: true, TurnID: "turn_x"}
	m.Role, m.ToolCallID, _ = strings.Cut(head, ":")
	role, calls, ok := strings.Cut(m.Role, "+")
	if m.Role = role; !ok {
		return m
	}
	var stored []storedCall
	for call := range strings.SplitSeq(calls, ",") {
		id, readOnly := strings.CutSuffix(call, "?")
		intent := intentPossible
		if readOnly {
			intent = intentNone
		}
		stored = append(stored, storeCall(provider.ToolCall{ID: id, Name: "work", Arguments: "{}"}, intent))
	}
	m.ToolCalls = marshalCalls(stored)
	return m
}

func transcript(lines ...string) []sessiondb.Message {
	var rows []sessiondb.Message
	for i, line := range lines {
		rows = append(rows, row(int64(i+1), line))
	}
	return rows
}

// spoken writes messages in the words of row.
func spoken(messages []provider.Message) []string {
	var out []string
	for _, m := range messages {
		head := m.Role
		for i, call := range m.ToolCalls {
			head += map[bool]string{true: "+", false: ","}[i == 0] + call.ID
		}
		if m.ToolCallID != "" {
			head += ":" + m.ToolCallID
		}
		out = append(out, head+" "+m.Content)
	}
	return out
}

func TestReplayIsTotal(t *testing.T) {
	for name, c := range map[string]struct{ rows, want []string }{
		"plain":                   {[]string{"user a", "assistant b", "user c"}, []string{"user a", "assistant b", "user c"}},
		"results in call order":   {[]string{"user a", "assistant+x,y ", "tool:y 2", "tool:x 1"}, []string{"user a", "assistant+x,y ", "tool:x 1", "tool:y 2"}},
		"orphan result":           {[]string{"user a", "tool:z 1", "assistant b"}, []string{"user a", "assistant b"}},
		"result of another block": {[]string{"user a", "assistant+x ", "tool:y 1", "tool:x 2"}, []string{"user a", "assistant+x ", "tool:x 2"}},
		"second result":           {[]string{"user a", "assistant+x ", "tool:x 1", "tool:x 2"}, []string{"user a", "assistant+x ", "tool:x 1"}},
		"missing result":          {[]string{"user a", "assistant+x ", "user b"}, []string{"user a", "assistant+x ", "tool:x " + gapResult, "assistant " + gapAnswer, "user b"}},
		"two user rows":           {[]string{"user a", "user b"}, []string{"user a", "assistant " + gapAnswer, "user b"}},
		"two answers":             {[]string{"user a", "assistant b", "assistant c"}, []string{"user a", "assistant b\n\nc"}},
		"empty answer":            {[]string{"user a", "assistant ", "assistant b"}, []string{"user a", "assistant b"}},
		"system row":              {[]string{"system s", "user a"}, []string{"user a"}},
		"nothing":                 {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, spoken(Replay(transcript(c.rows...)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReplaySendsTheSidecarAndShowsTheText(t *testing.T) {
	rows := transcript("user clean")
	rows[0].Wire = "[from Ann] clean"
	if got := Replay(rows)[0].Content; got != "[from Ann] clean" {
		t.Error(got)
	}
}

// drawRows gives any rows at all, in any order.
func drawRows(t *rapid.T) []sessiondb.Message {
	id := rapid.SampledFrom([]string{"x", "y", "z"})
	line := rapid.OneOf(
		rapid.SampledFrom([]string{"user a", "user b", "assistant b", "assistant ", "system s"}),
		rapid.Map(id, func(s string) string { return "tool:" + s + " r" }),
		rapid.Map(rapid.SliceOfNDistinct(id, 1, 3, rapid.ID), func(ids []string) string { return "assistant+" + strings.Join(ids, ",") + " t" }),
		rapid.Map(rapid.SliceOfNDistinct(id, 1, 2, rapid.ID), func(ids []string) string { return "assistant+" + strings.Join(ids, "?,") + "? t" }),
	)
	return transcript(rapid.SliceOfN(line, 0, 14).Draw(t, "rows")...)
}

func TestReplayAlternatesAndAnswersEachCallWhateverTheRowsAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		open, last := []string(nil), ""
		for _, m := range Replay(drawRows(t)) {
			if m.Role == roleTool {
				if len(open) == 0 || open[0] != m.ToolCallID {
					t.Fatalf("result %q where %v are open", m.ToolCallID, open)
				}
				open = open[1:]
				continue
			}
			if len(open) > 0 {
				t.Fatalf("calls %v have no result", open)
			}
			if last == m.Role && m.Role == roleUser {
				t.Fatal("two user messages in a row")
			}
			for _, call := range m.ToolCalls {
				open = append(open, call.ID)
			}
			last = m.Role
			if len(open) > 0 {
				last = "calls"
			}
		}
		if len(open) > 0 {
			t.Fatalf("calls %v have no result", open)
		}
	})
}

func TestWhatWasSentStaysThePrefixOfWhatIsSentLater(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := drawRows(t)
		for n := 1; n < len(rows); n++ {
			early, late := Replay(rows[:n]), Replay(rows)
			if len(early) == 0 || !sendable(rows[:n]) {
				continue
			}
			if len(late) < len(early) || !cmp.Equal(early, late[:len(early)]) {
				t.Fatalf("after %d rows %v, later %v", n, spoken(early), spoken(late))
			}
		}
	})
}

// sendable reports rows a request is made of: they end with a user row, or with the last result of a block. Any earlier end is a
// moment in which nothing is sent.
func sendable(rows []sessiondb.Message) bool {
	if rows[len(rows)-1].Role == roleUser {
		return true
	}
	var r repair
	i := len(rows) - 1
	for i >= 0 && rows[i].Role == roleTool {
		i--
	}
	if i == len(rows)-1 || i < 0 || len(storedCalls(rows[i])) == 0 {
		return false
	}
	r.openCalls(rows)
	return len(r.insert) == 0 && len(r.supersede) == 0
}

func TestReplayIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := drawRows(t)
		a, _ := json.Marshal(Replay(rows))
		b, _ := json.Marshal(Replay(rows))
		if string(a) != string(b) {
			t.Fatal("two replays differ")
		}
	})
}

func TestPlanMakesCallsFitToBeStoredAndSentAgain(t *testing.T) {
	tools := tools(echo("work"), fake{name: "look", readOnly: true})
	calls := plan([]provider.ToolCall{
		{ID: "a", Name: "work", Arguments: `{"x":1}`},
		{ID: "a", Name: "look", Arguments: `{}`},
		{ID: "", Name: "no such/tool", Arguments: `{}`},
		{ID: "b", Name: "work", Arguments: `{"x":`},
		{ID: "c", Name: "work", Arguments: `{"x":1}`},
	}, "turn_t", 2, tools)
	var got []string
	for _, c := range calls {
		got = append(got, fmt.Sprint(c.stored.ID, " ", c.stored.Function.Name, " ", c.stored.Function.Arguments, " ", c.stored.Intent, " ", c.usable, " ", c.twin, " ", c.stored.Said))
	}
	if diff := cmp.Diff([]string{
		`a work {"x":1} possible true -1 `, `call_t_2_1 look {} none true -1 `, `call_t_2_2 no_such_tool {} none false -1 `,
		`b work {} none false -1 {"x":`, `c work {"x":1} possible true 0 `,
	}, got); diff != "" {
		t.Error(diff)
	}
}
