package gateway

import (
	"slices"
	"testing"
	"time"

	"gatewayd/sessiondb"

	"pgregory.net/rapid"
)

// applied gives the rows as they are after a repair was written.
func applied(rows []sessiondb.Message, r repair) []sessiondb.Message {
	var out []sessiondb.Message
	for _, m := range rows {
		if slices.ContainsFunc(r.supersede, func(d sessiondb.Message) bool { return d.ID == m.ID }) {
			continue
		}
		if r.withdraw != nil && m.ID == r.withdraw.ID {
			m.Wire = withdrawn
		}
		out = append(out, m)
	}
	for i, n := range r.insert {
		out = append(out, sessiondb.Message{
			ID: 1_000 + int64(i), Role: n.Role, Content: n.Content, ToolCallID: n.ToolCallID, Effect: n.Effect, Kind: n.Kind, Active: true,
		})
	}
	return out
}

func TestRepairDecidesFromTheRowsAlone(t *testing.T) {
	for _, c := range []struct {
		name string
		rows []string
		want string
	}{
		{"nothing", nil, ""},
		{"whole", []string{"user a", "assistant b"}, "user assistant"},
		{"no answer", []string{"user a"}, "user assistant/closing"},
		{"result without answer", []string{"user a", "assistant+x ", "tool:x r"}, "user assistant+1 tool assistant/closing"},
		{"dangling call", []string{"user a", "assistant+x "}, "user assistant+1 tool/repair assistant/closing"},
		{"dangling read-only call is dropped", []string{"user a", "assistant+x? "}, "user assistant/closing"},
		{"dropped after a whole block", []string{"user a", "assistant+x ", "tool:x r", "assistant+y? "}, "user assistant+1 tool assistant/closing"},
		{"one of two is read-only", []string{"user a", "assistant+x?,y "}, "user assistant+2 tool/repair tool/repair assistant/closing"},
		{"partly answered", []string{"user a", "assistant+x,y ", "tool:y r"}, "user assistant+2 tool tool/repair assistant/closing"},
		{"partly answered read-only is kept", []string{"user a", "assistant+x?,y? ", "tool:y r"}, "user assistant+2 tool tool/repair assistant/closing"},
		{"only the tail is touched", []string{"user a", "assistant+x ", "user b", "assistant c"}, "user assistant+1 user assistant"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows := transcript(c.rows...)
			if got := shape(applied(rows, planRepair(rows, time.Now()))); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestRepairSaysUnknownOnlyWhereThereMayBeAnEffect(t *testing.T) {
	rows := transcript("user a", "assistant+x?,y ")
	r := planRepair(rows, time.Now())
	if r.unknown != 1 || r.notRun != 1 || r.insert[0].Effect != intentNone || r.insert[1].Effect != "unknown" || r.insert[1].Content != unknownEffect {
		t.Errorf("%+v", r)
	}
	if got := r.recovered("s").Outcome; got != "1 tool call(s) answered as effect unknown, 1 read-only tool call(s) answered as not run, a closing row says so" {
		t.Error(got)
	}
}

func TestRepairIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := drawRows(t)
		rows = applied(rows, planRepair(rows, time.Now()))
		if again := planRepair(rows, time.Now()); !again.empty() {
			t.Fatalf("a second repair of %s: %+v", shape(rows), again)
		}
	})
}

func TestAnOldConfirmationIsWithdrawn(t *testing.T) {
	now := time.Now()
	for text, want := range map[string]bool{
		"user yes": true, "user OK!": true, "user go ahead": true, "user ja bitte": true, "user yes, please": true,
		"user yes, but only the test files": false, "user delete it": false, "user why?": false, "user okay then what is it": false,
	} {
		rows := transcript("user a", "assistant may I?", text)
		rows[2].CreatedAt = now.Add(-2 * time.Minute)
		if got := planRepair(rows, now).withdraw != nil; got != want {
			t.Errorf("%q withdrawn: %v", text, got)
		}
		rows[2].CreatedAt = now.Add(-30 * time.Second)
		if planRepair(rows, now).withdraw != nil {
			t.Errorf("%q is fresh", text)
		}
	}
}
