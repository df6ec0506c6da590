package provider

import (
	"encoding/json"
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
)

// Gemini's door signs the first of the calls that were made together and refuses a conversation without the signature.
func TestASignatureGoesBackWithItsCall(t *testing.T) {
	const signature = `"extra_content":{"google":{"thought_signature":"SIG=="}}`
	answer := sse(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"},`+signature+`}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"now","arguments":"{}"}}]}}]}`, stop, "[DONE]")
	server := fakellm.Start(fakellm.Options{Script: []fakellm.Response{fakellm.Raw{Body: answer}}, Each: func(r fakellm.Request) fakellm.Response {
		if !strings.Contains(string(r.Body), "thought_signature") {
			return fakellm.Error{Status: 400, Message: "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly."}
		}
		return fakellm.Text{Text: "fine"}
	}})
	t.Cleanup(server.Close)
	client, _ := clientOf(t, server)
	got, err := client.Complete(bounded(t), ask, nil)
	if err != nil || len(got.ToolCalls) != 2 || got.Thinking == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	conversation := func(thinking json.RawMessage) Request {
		return Request{Messages: []Message{
			{Role: "user", Content: "list"},
			{Role: "assistant", ToolCalls: got.ToolCalls, Thinking: thinking},
			{Role: "tool", ToolCallID: "a", Content: "x"},
			{Role: "tool", ToolCallID: "b", Content: "y"},
		}}
	}
	if _, err := client.Complete(bounded(t), conversation(got.Thinking), nil); err != nil {
		t.Fatal(err)
	}
	sent := server.Requests()
	if body := string(sent[len(sent)-1].Body); len(sent) != 2 || strings.Count(body, "extra_content") != 1 || !strings.Contains(body, `{"id":"a","type":"function","function":{"name":"ls","arguments":"{}"},`+signature+`}`) {
		t.Errorf("after %d calls: %s", len(sent), body)
	}
	// The calls of another model have none: Google names what stands for it.
	foreign := json.RawMessage(`[{"type":"thinking","thinking":"hm","signature":"other"}]`)
	for calls := 4; calls <= 5; calls++ {
		if _, err := client.Complete(bounded(t), conversation(foreign), nil); err != nil || len(server.Requests()) != calls {
			t.Errorf("%v after %d calls, want %d", err, len(server.Requests()), calls)
		}
	}
	sent = server.Requests()
	if body := string(sent[len(sent)-1].Body); strings.Count(body, unsigned) != 1 || strings.Contains(body, "other") {
		t.Errorf("unsigned calls went as %s", body)
	}
	raw, err := messagesAPI{}.encode("claude", conversation(got.Thinking), manner{})
	if err != nil || strings.Contains(string(raw), "SIG") {
		t.Errorf("another wire was sent %s, %v", raw, err)
	}
}

// OpenRouter hands the same on as details beside the calls, and says so when they are missing.
func TestDetailsThatOnlyTheServerReadsGoBackToIt(t *testing.T) {
	const detail = `{"type":"reasoning.encrypted","data":"SIG==","format":"google-gemini-v1","index":0,"id":"a"}`
	answer := sse(`{"choices":[{"delta":{"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm"}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}],"reasoning_details":[`+detail+`]}}]}`, stop, "[DONE]")
	server := fakellm.Start(fakellm.Options{Script: []fakellm.Response{fakellm.Raw{Body: answer}}, Each: func(r fakellm.Request) fakellm.Response {
		if !strings.Contains(string(r.Body), `"reasoning_details":[{"type":"reasoning.encrypted"`) {
			return fakellm.Raw{Status: 400, ContentType: "application/json", Body: `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"Gemini models require OpenRouter reasoning details to be preserved in each request. Upstream error: Function call is missing a thought_signature"}}}`}
		}
		return fakellm.Text{Text: "fine"}
	}})
	t.Cleanup(server.Close)
	client, _ := clientOf(t, server)
	got, err := client.Complete(bounded(t), ask, nil)
	if err != nil || got.Reasoning != "hm" || got.Thinking == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	for calls, thinking := range map[int]json.RawMessage{1: got.Thinking, 2: nil} {
		before := len(server.Requests())
		_, err := client.Complete(bounded(t), Request{Messages: []Message{
			{Role: "user", Content: "list"}, {Role: "assistant", ToolCalls: got.ToolCalls, Thinking: thinking}, {Role: "tool", ToolCallID: "a", Content: "x"},
		}}, nil)
		sent := server.Requests()[before:]
		if body := string(sent[len(sent)-1].Body); err != nil || len(sent) > calls || strings.Contains(body, detail) != (thinking != nil) || !json.Valid(sent[len(sent)-1].Body) {
			t.Errorf("%v after %d calls: %s", err, len(sent), body)
		}
	}
}

// Bedrock wants tools wherever a row has called one, also for a summary that may call none.
func TestRowsWithCallsHaveToolsBesideThemWhereThatIsWanted(t *testing.T) {
	for _, api := range []string{APIOpenAI, APIAnthropic} {
		server := refusingServer(t, func(body string) bool { return !strings.Contains(body, `"tools":[`) }, 400, `{"message":"The toolConfig field must be defined when using toolUse and toolResult content blocks."}`)
		client, _ := clientOf(t, server, func(o *Options) { o.API = api })
		bare := rich()
		bare.Tools, bare.Effort = nil, ""
		for calls := 2; calls <= 3; calls++ {
			if got, err := client.Complete(bounded(t), bare, nil); err != nil || got.Text != "fine" || len(server.Requests()) != calls {
				t.Errorf("%s: %v after %d calls, want %d", api, err, len(server.Requests()), calls)
			}
		}
	}
}

func TestShortIDsFollowFromTheLongOnes(t *testing.T) {
	rows := shortIDs([]Message{
		{Role: "assistant", ToolCalls: []ToolCall{{"call_0123456789abcdef", "ls", "{}"}, {"Abcdef123", "ls", "{}"}}},
		{Role: "tool", ToolCallID: "call_0123456789abcdef"},
		{Role: "tool", ToolCallID: "Abcdef123"},
		{Raw: json.RawMessage(`{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"ls","arguments":"{}"}}]}`)},
	})
	first, second, raw := rows[0].ToolCalls[0].ID, rows[0].ToolCalls[1].ID, rows[3].ToolCalls[0].ID
	if len(first) != shortIDLength || !isAlphanumeric(first) || first != rows[1].ToolCallID || second != "Abcdef123" || rows[2].ToolCallID != second || len(raw) != shortIDLength || raw == first {
		t.Errorf("%q %q %q", first, second, raw)
	}
}
