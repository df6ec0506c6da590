package web

import (
	"encoding/json"
	"strings"
	"testing"

	"gatewayd/sessiondb"
)

func called(id, name, args string) json.RawMessage {
	raw, _ := json.Marshal([]map[string]any{{"id": id, "function": map[string]string{"name": name, "arguments": args}}})
	return raw
}

// What became of each call is told by its row: nobody is told that something ran which may not have, or the reverse.
func TestEachCallIsShownAsWhatBecameOfIt(t *testing.T) {
	for _, c := range []struct {
		name    string
		result  *sessiondb.Message
		running bool
		want    string
	}{
		{"it runs", nil, true, "running"},
		{"its process died before a repair", nil, false, "no result recorded"},
		{"it ran", &sessiondb.Message{Content: "out\n[exit 0]", Effect: "done"}, false, "done"},
		{"it ran and failed", &sessiondb.Message{Content: "out\n[exit 3]", Effect: "done"}, false, "failed"},
		{"it was refused", &sessiondb.Message{Content: "error: there is no file", Effect: "none"}, false, "failed"},
		{"nobody allowed it", &sessiondb.Message{Content: "[not run: nobody approved it in time]", Effect: "none"}, false, "not run"},
		{"its process died", &sessiondb.Message{Content: "[its effect is UNKNOWN]", Effect: "unknown", Kind: "repair"}, false, "effect unknown"},
		{"it was stopped", &sessiondb.Message{Content: "half", Effect: "done", Kind: "interrupted"}, false, "cut short"},
	} {
		rows := []sessiondb.Message{{OriginID: 1, TurnID: "t", Role: "user", Content: "go"}, {OriginID: 2, TurnID: "t", Role: "assistant", ToolCalls: called("c1", "terminal", `{"command":"ls"}`)}}
		if c.result != nil {
			c.result.OriginID, c.result.TurnID, c.result.Role, c.result.ToolCallID = 3, "t", "tool", "c1"
			rows = append(rows, *c.result)
		}
		as := showing{most: maxShown}
		if c.running {
			as.running = "t"
		}
		all := exchanges(rows, as)
		if len(all) != 1 || len(all[0].Items) != 2 || all[0].Items[1].Tool.State != c.want || all[0].Items[1].Tool.Label != "ls" {
			t.Errorf("%s: %+v, want %q", c.name, all, c.want)
		}
	}
}

func TestRowsAreShownAsWhatTheyAre(t *testing.T) {
	all := exchanges([]sessiondb.Message{
		{OriginID: 1, Role: "user", Content: "old", Kind: "history"},
		{OriginID: 2, Role: "assistant", Content: "answer", Kind: "history"},
		{OriginID: 3, Role: "assistant", Content: "it was about x", Kind: sessiondb.KindSummary},
		{OriginID: 4, TurnID: "a", Role: "user", Content: "go"},
		{OriginID: 5, TurnID: "a", Role: "user", Content: "went on", Kind: sessiondb.KindResumed},
		{OriginID: 6, TurnID: "a", Role: "user", Content: "faster", Kind: sessiondb.KindSteer},
		{OriginID: 7, TurnID: "a", Role: "assistant", Content: "half\n\n[Stopped by a person.]", Kind: "closing"},
		{OriginID: 8, TurnID: "b", Role: "user", Content: "why?"},
		{OriginID: 9, TurnID: "b", Role: "assistant", Content: "[The model could not answer.]", Kind: "closing", Reasoning: "hm"},
		{OriginID: 10, TurnID: "c", Role: "tool", Content: "lost its call", ToolCallID: "x", ToolName: "files"},
	}, showing{most: maxShown})
	var got []string
	for _, x := range all {
		for _, it := range x.Items {
			word := it.Kind
			if it.Begins {
				word += " begins"
			}
			if it.Fate != "" {
				word += " (" + it.Text + "|" + it.Fate + ")"
			}
			got = append(got, word)
		}
		got = append(got, "-")
	}
	want := "person begins,answer,-,summary,-,person begins,note begins,person,answer (half|Stopped by a person.),-,person begins,answer (|The model could not answer.),-,tool,-"
	if s := strings.Join(got, ","); s != strings.ReplaceAll(want, "answer,-,summary,-", "answer,summary,-") && s != want {
		t.Errorf("shown as\n%s, want\n%s", s, want)
	}
}

func TestALongResultIsCutAndSaysHowMuch(t *testing.T) {
	rows := []sessiondb.Message{{OriginID: 4, TurnID: "t", Role: "tool", ToolCallID: "c", Content: strings.Repeat("é", maxShown)}}
	cut := exchanges(rows, showing{most: maxShown})[0].Items[0].Tool
	if len(cut.Result)+cut.MoreOut != 2*maxShown || cut.MoreOut < maxShown {
		t.Errorf("%d shown, %d more", len(cut.Result), cut.MoreOut)
	}
	if whole := exchanges(rows, showing{most: 1 << 30})[0].Items[0].Tool; whole.MoreOut != 0 || len(whole.Result) != 2*maxShown {
		t.Errorf("the whole has %d bytes and %d more", len(whole.Result), whole.MoreOut)
	}
}

func FuzzRowsAreShownWithoutAnError(f *testing.F) {
	f.Add("assistant", "closing", `[{"id":"c","function":{"name":"x","arguments":"{"}}]`, "[", "length")
	f.Fuzz(func(t *testing.T, role, kind, calls, content, finish string) {
		rows := []sessiondb.Message{
			{OriginID: 1, TurnID: "t", Role: role, Kind: kind, ToolCalls: json.RawMessage(calls), Content: content, FinishReason: finish, ToolCallID: content},
			{OriginID: 2, TurnID: "t", Role: "tool", ToolCallID: "c", Content: content, Kind: kind},
		}
		if len(exchanges(rows, showing{most: 8})) != 1 {
			t.Error("two turns")
		}
	})
}
