package provider

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatewayd/internal/fakellm"
)

func encoded(t *testing.T, api messagesAPI, request Request, m manner) map[string]any {
	t.Helper()
	raw, err := api.encode("claude", request, m)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := api.encode("claude", request, m)
	if string(raw) != string(again) {
		t.Errorf("not the same bytes twice:\n%s\n%s", raw, again)
	}
	var value map[string]any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return value
}

func TestRowsBecomeThoseOfTheMessagesAPI(t *testing.T) {
	got := encoded(t, messagesAPI{}, Request{
		System: "be brief", MaxTokens: 100,
		Messages: []Message{
			{Role: "user", Content: "one"},
			{Role: "assistant", Content: "look", ToolCalls: []ToolCall{{"c1", "ls", `{"a":1}`}, {"c2", "rm", `{"a":`}}},
			{Role: "tool", ToolCallID: "c1", Content: "out"},
			{Role: "tool", ToolCallID: "c2", Content: "bad"},
			{Role: "user", Content: "steer"},
			{Role: "assistant", Content: ""},
			{Raw: json.RawMessage(`{"role":"assistant","content":"yes"}`)},
			{Role: "user", Content: "two"},
		},
		Tools: []ToolSpec{{Name: "ls", Parameters: json.RawMessage(`{"type":"object"}`)}, {Name: "rm"}},
	}, manner{})
	cache := map[string]any{"type": "ephemeral"}
	type m = map[string]any
	want := m{
		"model": "claude", "max_tokens": 100.0, "stream": true,
		"system": []any{m{"type": "text", "text": "be brief", "cache_control": cache}},
		"tools": []any{
			m{"name": "ls", "description": "", "input_schema": m{"type": "object"}},
			m{"name": "rm", "description": "", "input_schema": m{"type": "object", "properties": m{}}, "cache_control": cache},
		},
		"messages": []any{
			m{"role": "user", "content": []any{m{"type": "text", "text": "one"}}},
			m{"role": "assistant", "content": []any{
				m{"type": "text", "text": "look"}, m{"type": "tool_use", "id": "c1", "name": "ls", "input": m{"a": 1.0}}, m{"type": "tool_use", "id": "c2", "name": "rm", "input": m{}},
			}},
			m{"role": "user", "content": []any{
				m{"type": "tool_result", "tool_use_id": "c1", "content": "out"},
				m{"type": "tool_result", "tool_use_id": "c2", "content": "bad"},
				m{"type": "text", "text": "steer", "cache_control": cache},
			}},
			m{"role": "assistant", "content": []any{m{"type": "text", "text": "yes"}}},
			m{"role": "user", "content": []any{m{"type": "text", "text": "two", "cache_control": cache}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAtMostFourCacheMarksHoweverOftenTheyAreSet(t *testing.T) {
	var rows []turnRow
	for range 9 {
		rows = append(rows, turnRow{"user", textBlocks("u")}, turnRow{"assistant", textBlocks("a")})
	}
	mark := &cacheMark{Type: "ephemeral"}
	for range 3 {
		markRows(rows, mark)
	}
	var wire body
	wire.rows(rows)
	if n := strings.Count(wire.String(), "cache_control"); n != cacheMarksRows || n+2 > cacheMarksLimit {
		t.Errorf("%d marks on rows", n)
	}
	long := rich()
	for range 20 {
		long.Messages = append(long.Messages, Message{Role: "assistant", Content: "a"}, Message{Role: "user", Content: "u"})
	}
	for ttl, want := range map[string]int{"": 4, "5m": 4, "1h": 4, "off": 0} {
		text, _ := messagesAPI{ttl: ttl}.encode("m", long, manner{})
		if n := strings.Count(string(text), `"cache_control"`); n != want || strings.Contains(string(text), `"ttl":"1h"`) != (ttl == "1h") {
			t.Errorf("ttl %q: %d marks", ttl, n)
		}
	}
	text, _ := messagesAPI{}.encode("m", long, manner{not: map[string]bool{paramCache: true}})
	if strings.Contains(string(text), "cache_control") {
		t.Error("marks for a server that refuses them")
	}
}

func TestSignedThoughtsGoBackWithTheirCallsOrThereAreNone(t *testing.T) {
	server := fakellm.New(t,
		fakellm.Raw{Body: strings.Join([]string{
			`data: {"type":"message_start","message":{"model":"claude-x","usage":{"input_tokens":10,"cache_creation_input_tokens":5,"output_tokens":1}}}`,
			`data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm, "}}`,
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"ls"}}`,
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"SIG"}}`,
			`data: {"type":"content_block_stop","index":0}`,
			`data: {"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"XYZ"}}`,
			`data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"c1","name":"ls","input":{}}}`,
			`data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}`,
			`data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":":1}"}}`,
			`data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":20}}`,
			`data: {"type":"message_stop"}`, "",
		}, "\n\n")}, fakellm.Text{Text: "done"}, fakellm.Text{Text: "done"}, fakellm.Error{Status: 400, Message: "messages.1.content.0: Invalid `signature` in `thinking` block"}, fakellm.Text{Text: "done"})
	client, _ := clientOf(t, server, func(o *Options) { o.API, o.Effort = APIAnthropic, "low" })
	request := Request{Messages: []Message{{Role: "user", Content: "list"}}, Tools: []ToolSpec{{Name: "ls"}}}
	got, err := client.Complete(bounded(t), request, nil)
	if err != nil || got.Reasoning != "hm, ls" || got.Text != "" || got.Usage != (Usage{Prompt: 15, CacheWrite: 5, Completion: 20}) || got.Model != "claude-x" {
		t.Fatalf("%+v, %v", got, err)
	}
	const signed = `[{"signature":"SIG","thinking":"hm, ls","type":"thinking"},{"data":"XYZ","type":"redacted_thinking"}]`
	if string(got.Thinking) != signed || got.ToolCalls[0] != (ToolCall{"c1", "ls", `{"a":1}`}) {
		t.Fatalf("%s, %+v", got.Thinking, got.ToolCalls)
	}
	row := Message{Role: "assistant", ToolCalls: got.ToolCalls, Thinking: got.Thinking}
	request.Messages = append(request.Messages, row, Message{Role: "tool", ToolCallID: "c1", Content: "out"})
	for _, stored := range []bool{true, false} {
		if !stored {
			request.Messages[1].Thinking = nil
		}
		if _, err := client.Complete(bounded(t), request, nil); err != nil {
			t.Fatal(err)
		}
		sent := server.Requests()
		body := string(sent[len(sent)-1].Body)
		if thinks := strings.Contains(body, `"budget_tokens":4096`); thinks != stored || strings.Contains(body, "SIG") != stored {
			t.Errorf("thoughts stored %v, thinking asked for %v: %s", stored, thinks, body)
		}
	}
	request.Messages[1].Thinking = got.Thinking
	if _, err := client.Complete(bounded(t), request, nil); err != nil {
		t.Fatal(err)
	}
	sent := server.Requests()
	if body := string(sent[len(sent)-1].Body); len(sent) != 5 || strings.Contains(body, "SIG") || strings.Contains(body, "budget_tokens") {
		t.Errorf("%d calls; after a refused signature: %s", len(sent), body)
	}
}

func TestTheMessagesAPIIsKnownByItsHost(t *testing.T) {
	for base, want := range map[string]string{
		"https://api.anthropic.com": "https://api.anthropic.com/v1 anthropic", "https://api.anthropic.com/v1": "https://api.anthropic.com/v1 anthropic",
		"https://api.openai.com/v1": "https://api.openai.com/v1 openai", "https://anthropic.example/v1": "https://anthropic.example/v1 openai",
	} {
		if d := New(Options{BaseURL: base, Name: "m"}).Describe(); d.BaseURL+" "+d.API != want {
			t.Errorf("%s: %s %s", base, d.BaseURL, d.API)
		}
	}
	server := fakellm.Start(fakellm.Options{Keys: []string{"sk-very-secret-key"}, Script: []fakellm.Response{fakellm.Text{Text: "ok"}}})
	t.Cleanup(server.Close)
	client, _ := clientOf(t, server, func(o *Options) { o.API = APIAnthropic })
	got, err := client.Complete(bounded(t), ask, nil)
	r := server.Requests()[0]
	if err != nil || got.Text != "ok" || r.Header.Get("X-Api-Key") != "sk-very-secret-key" || r.Header.Get("Authorization") != "" || r.Header.Get("Anthropic-Version") == "" || r.Path != "/v1/messages" {
		t.Errorf("%+v, %v: %+v", got, err, r.Header)
	}
}

// Some servers search the web by themselves and tell of it in blocks of their own between ours.
func TestWhatAServerDoesByItselfIsNoCallOfOurs(t *testing.T) {
	body := strings.Join([]string{
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}`,
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"q\":1}"}}`,
		`data: {"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"s","content":[]}}`,
		`data: {"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}`,
		`data: {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"found"}}`,
		`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `data: {"type":"message_stop"}`, "",
	}, "\n\n")
	client, _ := clientOf(t, fakellm.New(t, fakellm.Raw{Body: body}), func(o *Options) { o.API = APIAnthropic })
	got, err := client.Complete(bounded(t), ask, nil)
	if err != nil || got.Text != "found" || len(got.ToolCalls) != 0 || got.FinishReason != "stop" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAWholeMessageIsAnAnswerToo(t *testing.T) {
	body := `{"type":"message","model":"m","content":[{"type":"thinking","thinking":"hm","signature":"S"},{"type":"text","text":"hi"},{"type":"tool_use","id":"t","name":"ls","input":{"p":"/"}}],
		"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":4}}`
	client, _ := clientOf(t, fakellm.New(t, fakellm.Raw{ContentType: "application/json", Body: body}), func(o *Options) { o.API = APIAnthropic })
	got, err := client.Complete(bounded(t), ask, nil)
	if err != nil || got.Text != "hi" || got.Reasoning != "hm" || len(got.ToolCalls) != 1 || got.ToolCalls[0].Arguments != `{"p":"/"}` || got.Usage.Prompt != 3 || len(got.Thinking) == 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
