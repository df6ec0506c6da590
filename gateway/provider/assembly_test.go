package provider

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// feed applies deltas, written as the inside of choices[0].delta.
func feed(t *testing.T, deltas ...string) *assembly {
	t.Helper()
	a := &assembly{}
	for _, delta := range deltas {
		if _, _, err := a.apply([]byte(`{"choices":[{"index":0,"delta":` + delta + `}]}`)); err != nil {
			t.Fatalf("apply %s: %v", delta, err)
		}
	}
	return a
}

func TestToolCallFragmentsFindTheirCall(t *testing.T) {
	call := func(fields string) string { return `{"tool_calls":[` + fields + `]}` }
	cases := map[string]struct {
		deltas []string
		want   []ToolCall
	}{
		"pieces by index": {
			[]string{
				call(`{"index":0,"id":"a","function":{"name":"ls","arguments":""}}`), call(`{"index":0,"function":{"arguments":"{\"p\":"}}`),
				call(`{"index":1,"id":"b","function":{"name":"cat","arguments":"{}"}}`), call(`{"index":0,"function":{"arguments":"1}"}}`),
			},
			[]ToolCall{{"a", "ls", `{"p":1}`}, {"b", "cat", "{}"}},
		},
		"a new id under the same index is a new call": {
			[]string{call(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}`), call(`{"index":0,"id":"b","function":{"name":"ls","arguments":"{}"}}`)},
			[]ToolCall{{"a", "ls", "{}"}, {"b", "ls", "{}"}},
		},
		"no index, by id": {
			[]string{
				call(`{"id":"a","function":{"name":"ls","arguments":"{"}},{"id":"b","function":{"name":"cat","arguments":"{"}}`),
				call(`{"id":"a","function":{"arguments":"}"}},{"id":"b","function":{"arguments":"}"}}`),
			},
			[]ToolCall{{"a", "ls", "{}"}, {"b", "cat", "{}"}},
		},
		"no index and no id goes on with the last": {
			[]string{call(`{"id":"a","function":{"name":"ls","arguments":"{"}}`), call(`{"function":{"arguments":"}"}}`)},
			[]ToolCall{{"a", "ls", "{}"}},
		},
		"interleaved ids under one index": {
			[]string{
				call(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{"}}`), call(`{"index":0,"id":"b","function":{"name":"cat","arguments":"{"}}`),
				call(`{"index":0,"id":"a","function":{"arguments":"}"}}`), call(`{"index":0,"id":"b","function":{"arguments":"}"}}`),
			},
			[]ToolCall{{"a", "ls", "{}"}, {"b", "cat", "{}"}},
		},
		"the same id repeated with each piece": {
			[]string{call(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{"}}`), call(`{"index":0,"id":"a","function":{"name":"ls","arguments":"}"}}`)},
			[]ToolCall{{"a", "ls", "{}"}},
		},
		"a name in pieces": {
			[]string{call(`{"index":0,"id":"a","function":{"name":"term"}}`), call(`{"index":0,"function":{"name":"inal","arguments":"{}"}}`)},
			[]ToolCall{{"a", "terminal", "{}"}},
		},
		"a growing name": {
			[]string{call(`{"index":0,"id":"a","function":{"name":"term"}}`), call(`{"index":0,"function":{"name":"terminal","arguments":"{}"}}`)},
			[]ToolCall{{"a", "terminal", "{}"}},
		},
		"index as text": {
			[]string{call(`{"index":"0","id":"a","function":{"name":"ls","arguments":"{"}}`), call(`{"index":"0","function":{"arguments":"}"}}`)},
			[]ToolCall{{"a", "ls", "{}"}},
		},
		"arguments as an object": {
			[]string{call(`{"index":0,"id":"a","function":{"name":"ls","arguments":{"p": 1}}}`)},
			[]ToolCall{{"a", "ls", `{"p":1}`}},
		},
		"arguments of an odd type cost themselves": {
			[]string{call(`{"index":0,"id":"a","function":{"name":"ls","arguments":7}}`), call(`{"index":0,"function":{"arguments":"{}"}}`)},
			[]ToolCall{{"a", "ls", "{}"}},
		},
		"no arguments at all": {
			[]string{call(`{"index":0,"id":"a","function":{"name":"now"}}`)},
			[]ToolCall{{"a", "now", "{}"}},
		},
		"a list that is one object": {
			[]string{`{"tool_calls":{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}}`},
			[]ToolCall{{"a", "ls", "{}"}},
		},
		"broken arguments stay as they are": {
			[]string{call(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{\"p\": tru"}}`)},
			[]ToolCall{{"a", "ls", `{"p": tru`}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := feed(t, c.deltas...).response()
			if diff := cmp.Diff(c.want, got.ToolCalls); diff != "" || got.FinishReason != "tool_calls" {
				t.Errorf("finish %s, calls (-want +got):\n%s", got.FinishReason, diff)
			}
		})
	}
}

func TestCallsWithoutIDsGetTheirOwn(t *testing.T) {
	one := `{"tool_calls":[{"index":0,"id":"","function":{"name":"ls","arguments":"{}"}}]}`
	got := feed(t, one, one).response().ToolCalls
	if len(got) != 2 || got[0].ID == "" || got[0].ID == got[1].ID || !got[0].Complete() || !got[1].Complete() {
		t.Errorf("two whole calls under one index without ids: %+v", got)
	}
	twice := `{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"{}"}},{"index":1,"id":"x","function":{"name":"b","arguments":"{}"}}]}`
	got = feed(t, twice).response().ToolCalls
	if len(got) != 2 || got[0].ID != "x" || got[1].ID == "x" || got[1].Name != "b" {
		t.Errorf("one id for two indices: %+v", got)
	}
}

func TestOnlyAWholeObjectIsComplete(t *testing.T) {
	for arguments, want := range map[string]bool{
		`{}`: true, ` {"a":1} `: true, ``: false, `{`: false, `{"a":1`: false, `[]`: false, `null`: false, `"x"`: false, `{}{}`: false, `{"a":1}x`: false,
	} {
		if got := (ToolCall{Arguments: arguments}).Complete(); got != want {
			t.Errorf("Complete(%q) = %v", arguments, got)
		}
	}
}

func TestOddTypesCostTheFieldAndNotTheChunk(t *testing.T) {
	a := &assembly{}
	for _, chunk := range []string{
		`{"id":7,"model":{"no":"text"},"choices":[{"index":"0","delta":{"role":3,"content":[{"type":"text","text":"one "},{"type":"image"},"two "]},"finish_reason":null}]}`,
		`{"choices":{"delta":{"content":"three ","reasoning":{"no":"text"},"tool_calls":"none"}}}`,
		`{"choices":[{"delta":{"content":4}},{"index":1,"delta":{"content":"another choice"}}]}`,
		`{"choices":[{"delta":null,"message":{"content":"four"},"finish_reason":"stop"}],"usage":{"prompt_tokens":"12","completion_tokens":3.0,"prompt_tokens_details":{"cached_tokens":99}}}`,
		`{"choices":null,"usage":null,"error":null}`,
		`{"usage":"much"}`,
	} {
		if _, _, err := a.apply([]byte(chunk)); err != nil {
			t.Fatalf("%s: %v", chunk, err)
		}
	}
	want := Response{Text: "one two three four", FinishReason: "stop", Usage: Usage{Prompt: 12, Completion: 3, Cached: 12}}
	if diff := cmp.Diff(want, a.response()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReasoningIsKeptApartAndOnce(t *testing.T) {
	a := feed(t, `{"reasoning_content":"hm","reasoning":"hm"}`, `{"reasoning":" so"}`, `{"content":"yes"}`)
	if got := a.response(); got.Reasoning != "hm so" || got.Text != "yes" {
		t.Errorf("got %+v", got)
	}
}

func TestACutOffCallIsNeverTurnedIntoOne(t *testing.T) {
	a := feed(t, `{"tool_calls":[{"index":0,"id":"a","function":{"name":"rm","arguments":""}}]}`)
	a.finish = "length"
	if got := a.response(); got.FinishReason != "length" || got.ToolCalls[0].Complete() {
		t.Errorf("empty arguments of a cut-off answer became executable: %+v", got)
	}
	if got := a.partial(); len(got.ToolCalls) != 0 {
		t.Errorf("a partial answer has calls: %+v", got)
	}
}

func TestALoopOfCallsIsEnded(t *testing.T) {
	var b strings.Builder
	for i := range maxCalls + 1 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"index":` + string(rune('0'+i%10)) + `,"id":"` + strings.Repeat("i", i+1) + `","function":{"name":"x"}}`)
	}
	if _, _, err := (&assembly{}).apply([]byte(`{"choices":[{"delta":{"tool_calls":[` + b.String() + `]}}]}`)); err == nil {
		t.Error("129 calls were accepted")
	}
}
