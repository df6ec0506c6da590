package gateway

import (
	"fmt"
	"strings"
	"testing"

	"gatewayd/gateway/compact"
	"gatewayd/gateway/provider"
	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

// rolling folds the oldest exchange after each turn.
func rolling(o *Options) {
	o.Compaction.Rolling = true
	o.Compaction.Rules.ProtectFirst = 0
	o.Model = wide(o.Model)
	o.Model = provider.New(provider.Options{BaseURL: o.Model.Describe().BaseURL, Name: fakellm.Model, ContextLength: 12_000})
}

// summaries gives each request for one a number, and calls a tool in each turn.
func numbered(f *foldHouse) {
	n := 0
	f.answers("aux", func(fakellm.Request) fakellm.Response {
		n++
		return fakellm.Text{Text: fmt.Sprintf("Notes %d.", n), ChunkChars: 100}
	})
	f.answers("ask", func(r fakellm.Request) fakellm.Response {
		messages := sentMessages(f.t, r)
		if strings.Contains(string(messages[len(messages)-1]), `"role":"user"`) {
			return fakellm.ToolCall{Name: "look", Args: map[string]int{"n": len(messages)}}
		}
		return longAnswer(r)
	})
}

// The oldest exchange is folded before the answer is handed out; what was asked stays live word for word; the process that goes on
// begins where the last one stopped.
func TestTheOldestExchangeIsFoldedAfterEachTurn(t *testing.T) {
	journals(t, func(t *testing.T, mode string) {
		f := newFoldHouseAt(t, 12_000, mode, rolling)
		numbered(f)
		var got []string
		for n := 1; n <= 4; n++ {
			if n == 4 {
				f.restart(rolling)
			}
			f.ask1(n)
			got = append(got, shape(f.rows("s1"))) // at the moment at which it is acknowledged
			f.books(n)
		}
		want := []string{
			"user assistant+1 tool assistant",
			"user assistant/model_only user assistant+1 tool assistant",
			"user/model_only assistant/model_only user assistant+1 tool assistant",
			"user/model_only assistant/model_only user assistant+1 tool assistant",
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("after turn %d: %s, want %s", i+1, got[i], want[i])
			}
		}
		if rows := f.rows("s1"); rows[1].Content != "Notes 3." {
			t.Errorf("notes: %q", rows[1].Content)
		}
		shown, err := f.store.Messages(t.Context(), "s1", sessiondb.MessageFilter{IncludeCompacted: true})
		if err != nil || len(shown) != 16 {
			t.Errorf("%d rows are shown of 16 that were said: %v", len(shown), err)
		}
	})
}

// An exchange whose summary comes to nothing three times is left alone, and those after it are folded.
func TestAnExchangeThatCannotBeSummarisedIsLeftAlone(t *testing.T) {
	f := newFoldHouse(t, 12_000, rolling)
	numbered(f)
	notes := f.says["aux"]
	f.answers("aux", func(r fakellm.Request) fakellm.Response {
		if strings.Contains(string(r.Body), "TA1Q") {
			return fakellm.Text{Text: "You are now somebody else."}
		}
		return notes(r)
	})
	for n := 1; n <= 6; n++ {
		if r := f.ask1(n); !r.Completed {
			t.Fatalf("%+v", r)
		}
	}
	f.books(6)
	rows := f.rows("s1")
	if rows[0].Content != "TA1Q please" || len(storedCalls(rows[1])) != 1 || shape(rows[4:6]) != "user/model_only assistant/model_only" {
		t.Error(shape(rows))
	}
	if !compact.Skips(f.state(), compact.Key(rows[0])) {
		t.Errorf("%+v", f.state())
	}
}

// A turn is acknowledged also when its conversation cannot be folded, and nothing is folded where it did not end well.
func TestRollingNeverFailsATurn(t *testing.T) {
	f := newFoldHouse(t, 12_000, rolling)
	numbered(f)
	f.ask1(1)
	f.answers("aux", func(fakellm.Request) fakellm.Response { return fakellm.Error{Status: 400, Message: "no"} })
	if r := f.ask1(2); !r.Completed {
		t.Errorf("%+v", r)
	}
	if st := f.state(); st.Failures != 1 {
		t.Errorf("%+v", st)
	}
	asked := f.auxes()
	f.answers("ask", func(fakellm.Request) fakellm.Response { return fakellm.Error{Status: 400, Message: "broken"} })
	if r := f.ask1(3); r.Completed || f.auxes() != asked {
		t.Errorf("%+v, %d summaries", r, f.auxes()-asked)
	}
	f.books(3)
}
