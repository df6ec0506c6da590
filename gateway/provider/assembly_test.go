package provider

import (
	"errors"
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
		"no id and one index, the name alone first": {
			[]string{call(`{"index":0,"function":{"name":"ls","arguments":"{}"}}`), call(`{"index":0,"function":{"name":"cat","arguments":""}}`), call(`{"index":0,"function":{"arguments":"{\"p\":1}"}}`)},
			[]ToolCall{{"", "ls", "{}"}, {"", "cat", `{"p":1}`}},
		},
		"the name with each piece, and empty at the end": {
			[]string{call(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}`), call(`{"index":0,"function":{"name":"ls","arguments":""}}`)},
			[]ToolCall{{"a", "ls", "{}"}},
		},
		"arguments sent twice are not a call to run": {
			[]string{call(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}`), call(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}`)},
			[]ToolCall{{"a", "ls", "{}{}"}},
		},
		"another id with each piece": { // OCI
			[]string{
				call(`{"index":0,"id":"a","function":{"name":"ls","arguments":""}}`), call(`{"index":0,"id":"b","function":{"name":"","arguments":"{\"p\":"}}`), call(`{"index":0,"id":"c","function":{"arguments":"1}"}}`),
				call(`{"index":1,"id":"d","function":{"name":"cat","arguments":"{"}}`), call(`{"index":1,"id":"e","function":{"arguments":"}"}}`),
			},
			[]ToolCall{{"a", "ls", `{"p":1}`}, {"d", "cat", "{}"}},
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
			for i := range got.ToolCalls {
				if i < len(c.want) && c.want[i].ID == "" {
					got.ToolCalls[i].ID = "" // its own
				}
			}
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
	for name, c := range map[string]struct {
		deltas          []string
		reasoning, text string
	}{
		"under two names":        {[]string{`{"reasoning_content":"hm","reasoning":"hm"}`, `{"reasoning":" so"}`, `{"content":"yes"}`}, "hm so", "yes"},
		"in parts of a content":  {[]string{`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`, `{"content":[{"type":"text","text":"yes"}]}`}, "hm", "yes"}, // Mistral
		"as a part of that type": {[]string{`{"content":[{"type":"reasoning","text":"hm"},{"type":"text","text":"yes"}]}`}, "hm", "yes"},
		"as details":             {[]string{`{"reasoning_details":[{"type":"reasoning.text","text":"hm"}]}`, `{"reasoning":" so","reasoning_details":[{"text":" so"}]}`, `{"content":"yes"}`}, "hm so", "yes"},       // OpenRouter, MiniMax
		"in tags":                {[]string{`{"content":"\n<thi"}`, `{"content":"nk>\nhm <b>"}`, `{"content":"</b></th"}`, `{"content":"ink>\n"}`, `{"content":"\n yes </think>"}`}, "\nhm <b></b>", "yes </think>"}, // no reader for the model's thoughts
		"tags later on":          {[]string{`{"content":"say <think>"}`, `{"content":"x</think>"}`}, "", "say <think>x</think>"},
		"hardly a tag":           {[]string{`{"content":"<th"}`, `{"content":"is>"}`}, "", "<this>"},
		"the beginning of one":   {[]string{`{"content":" <th"}`}, "", " <th"},
		"never closed":           {[]string{`{"content":"<think>hm </thin"}`}, "hm ", ""},
	} {
		a := feed(t, c.deltas...)
		if _, _, err := a.apply([]byte(stop)); err != nil {
			t.Fatal(err)
		}
		if got := a.response(); got.Reasoning != c.reasoning || got.Text != c.text {
			t.Errorf("%s: thought %q, said %q", name, got.Reasoning, got.Text)
		}
	}
}

// A server that thinks in a form that only it can read is alive.
func TestHiddenThoughtsAreASignOfLife(t *testing.T) {
	_, meaningful, err := (&assembly{}).apply([]byte(`{"choices":[{"delta":{"content":"","reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]}}]}`))
	if err != nil || !meaningful {
		t.Errorf("meaningful %v, %v", meaningful, err)
	}
}

func TestEveryWordForAnEndIsUnderstood(t *testing.T) {
	for reason, want := range map[string]string{
		"stop": "stop", "STOP": "stop", "end_turn": "stop", "eos": "stop", "length": "length", "MAX_TOKENS": "length", "model_length": "length", // Mistral
		"content_filter: PROHIBITED_CONTENT": "content_filter", "sensitive": "content_filter", // Gemini, Zhipu
		"tool_calls": "stop", "function_call": "stop", // and no call came
		"their own": "their own", "load": "load",
	} {
		a := feed(t, `{"content":"x"}`)
		a.end(reason)
		if got := a.response().FinishReason; got != want || a.fault != nil {
			t.Errorf("%s: %s, %v", reason, got, a.fault)
		}
	}
	for reason, want := range map[string]Class{
		"error": ServerError, "network_error": ServerError, "abort": ServerError, "insufficient_system_resource": Overloaded, "function_call_filter: MALFORMED_FUNCTION_CALL": ServerError,
	} {
		a := feed(t, `{"content":"x"}`)
		if a.end(reason); a.fault == nil || a.fault.Class != want || a.fault.Message == "" {
			t.Errorf("%s: %v", reason, a.fault)
		}
	}
}

// Each of them came inside a 200, as an event or as the whole body.
func TestErrorsInsideAChunkAreErrors(t *testing.T) {
	for chunk, want := range map[string]Class{
		`{"error":{"message":"bad","code":400}}`:                                                                    FormatError,
		`{"object":"error","message":"bad","code":400}`:                                                             FormatError, // vLLM
		`{"code":500,"msg":"404 NOT_FOUND","success":false}`:                                                        ServerError, // Zhipu
		`{"code":"Throttling.RateQuota","message":"Requests rate limit exceeded","request_id":"x"}`:                 RateLimit,   // DashScope
		`{"detail":"Not authenticated: invalid api key"}`:                                                           Auth,
		`{"id":"x","choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`:            Billing,   // MiniMax
		`{"choices":[],"base_resp":{"status_code":1002,"status_msg":"rate limit"}}`:                                 RateLimit, // MiniMax
		`{"type":"error","error":{"type":"bad_request_error","message":"invalid params (2013)","http_code":"400"}}`: FormatError,
		`{"choices":[{"delta":{"content":"x"},"error":{"code":502,"message":"upstream"},"finish_reason":"error"}]}`: ServerError, // OpenRouter
	} {
		a := &assembly{}
		_, _, err := a.apply([]byte(chunk))
		if failed, ok := errors.AsType[*Error](err); !ok || failed.Class != want || failed.Message == "" {
			t.Errorf("%s: %v, want %s", chunk, err, want)
		}
	}
	for _, chunk := range []string{
		`{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}`, `{"choices":[{"delta":{},"error":null}],"error":null}`, `{"type":"ping"}`,
		`{"choices":[],"usage":{"prompt_tokens":1},"message":"thanks"}`, `{"choices":[],"base_resp":{"status_code":0,"status_msg":""}}`, `{}`,
	} {
		if _, _, err := (&assembly{}).apply([]byte(chunk)); err != nil {
			t.Errorf("%s: %v", chunk, err)
		}
	}
}

func TestUsageIsReadByEveryName(t *testing.T) {
	for usage, want := range map[string]Usage{
		`{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4}}`: {Prompt: 9, Completion: 3, Cached: 4},
		`{"prompt_tokens":9,"completion_tokens":3,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":5}`:      {Prompt: 9, Completion: 3, Cached: 4}, // DeepSeek
		`{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"cached_tokens":4}`:                           {Prompt: 9, Completion: 3, Cached: 4}, // Moonshot
		`{"prompt_tokens":9,"completion_tokens":3,"cache_read_input_tokens":4,"cache_creation_input_tokens":2}`:   {Prompt: 9, Completion: 3, Cached: 4, CacheWrite: 2},
		`{"input_tokens":9,"output_tokens":3}`:                                                                                                {Prompt: 9, Completion: 3},
		`{"prompt_tokens":20,"completion_tokens":198,"total_tokens":623}`:                                                                     {Prompt: 20, Completion: 603, Reasoning: 405}, // Gemini counts thoughts in the total only
		`{"prompt_tokens":21,"completion_tokens":0,"completion_tokens_details":{"reasoning_tokens":60},"total_tokens":81}`:                    {Prompt: 21, Completion: 60, Reasoning: 60},
		`{"prompt_tokens":21,"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":60}}`:                                      {Prompt: 21, Completion: 65, Reasoning: 60},
		`{"prompt_tokens":21,"completion_tokens":70,"completion_tokens_details":{"reasoning_tokens":60},"total_tokens":91}`:                   {Prompt: 21, Completion: 70, Reasoning: 60},
		`{"prompt_tokens":-1,"completion_tokens":"7","total_tokens":null,"prompt_tokens_details":{"cached_tokens":9,"cache_write_tokens":9}}`: {Completion: 7},
		`{"prompt_tokens":9,"completion_tokens":3,"total_tokens":3}`:                                                                          {Prompt: 9, Completion: 3},
	} {
		a := &assembly{}
		if _, _, err := a.apply([]byte(`{"choices":[],"usage":` + usage + `}`)); err != nil || a.usage != want {
			t.Errorf("%s: %+v, %v", usage, a.usage, err)
		}
	}
	for _, chunk := range []string{`{"choices":[],"x_groq":{"usage":{"prompt_tokens":9}}}`, `{"choices":[{"delta":{},"usage":{"prompt_tokens":9},"finish_reason":"stop"}]}`} { // Groq, Moonshot
		a := &assembly{}
		if _, _, err := a.apply([]byte(chunk)); err != nil || a.usage.Prompt != 9 {
			t.Errorf("%s: %+v, %v", chunk, a.usage, err)
		}
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
