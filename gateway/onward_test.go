package gateway

import (
	"encoding/json"
	"testing"

	"gatewayd/internal/fakellm"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// A conversation that another program left behind the results of its calls goes on from them without a message: the model is sent exactly
// its rows, and no row of a person is added. Any other end, no rows, and a word beside are the caller's error, and nothing is stored.
func TestAConversationFromElsewhereGoesOnFromItsResults(t *testing.T) {
	calls := json.RawMessage(`[{"id":"a","type":"function","function":{"name":"x","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"x","arguments":"{}"}}]`)
	user := sessiondb.NewMessage{Role: roleUser, Content: "look"}
	asked := sessiondb.NewMessage{Role: roleAssistant, ToolCalls: calls}
	one, two := sessiondb.NewMessage{Role: roleTool, ToolCallID: "a", Content: "one"}, sessiondb.NewMessage{Role: roleTool, ToolCallID: "b", Content: "two"}
	short := two
	short.Kind = kindInterrupted
	h := newHouse(t, nil, fakellm.Text{Text: "seen"}, fakellm.Text{Text: "and on"})
	for session, rows := range map[string][]sessiondb.NewMessage{
		"empty": nil, "asked": {user}, "answered": {user, {Role: roleAssistant, Content: "no"}}, "open": {user, asked}, "partly": {user, asked, one},
		"cut": {user, asked, one, short},
	} {
		before := h.foreign(t, session, rows...)
		if _, err := h.Say(soon(t), Say{Session: session, Source: SourceAPI, Continue: true}, nil); !problem.Is(err, problem.Conflict) {
			t.Errorf("%s: %v", session, err)
		}
		if after := shape(h.rows(session)); after != before {
			t.Errorf("%s became %s", session, after)
		}
	}
	h.foreign(t, "whole", user, asked, one, two)
	for _, beside := range []Say{{Text: "and?"}, {Detached: true}, {Mode: ModeSteer}} {
		beside.Session, beside.Source, beside.Continue = "whole", SourceAPI, true
		if _, err := h.Say(soon(t), beside, nil); !problem.Is(err, problem.Invalid) {
			t.Errorf("%+v: %v", beside, err)
		}
	}
	if _, err := h.Say(soon(t), Say{Session: "nowhere", Source: SourceAPI, Continue: true}, nil); !problem.Is(err, problem.NotFound) {
		t.Errorf("a session that is not there: %v", err)
	}
	r, err := h.Say(soon(t), Say{Session: "whole", Source: SourceAPI, Continue: true}, nil)
	if err != nil || !r.Completed || r.Text != "seen" || len(h.llm.Requests()) != 1 {
		t.Fatalf("%+v %v, %d calls", r, err, len(h.llm.Requests()))
	}
	var sent struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.Unmarshal(h.llm.Requests()[0].Body, &sent); err != nil || len(sent.Messages) != 5 || sent.Messages[4].Content != "two" {
		t.Errorf("the model was sent %+v %v", sent, err)
	}
	h.say(Say{Session: "whole", Text: "go on"})
	assertWhole(t, h.rows("whole"))
	if got := shape(h.rows("whole")); got != "user assistant+2 tool tool assistant user assistant" {
		t.Errorf("the rows: %s", got)
	}
}

// foreign makes a session of rows that no turn of ours wrote, and gives its shape.
func (h *house) foreign(t *testing.T, session string, rows ...sessiondb.NewMessage) string {
	t.Helper()
	if _, err := h.store.Found(t.Context(), sessiondb.NewSession{ID: session, Source: SourceAPI}, rows); err != nil {
		t.Fatal(err)
	}
	return shape(h.rows(session))
}
