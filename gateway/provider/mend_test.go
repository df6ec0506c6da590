package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
)

// refusing answers with this error as long as the request holds what is looked for, and with "fine" without it.
func refusingServer(t *testing.T, holds func(body string) bool, status int, answer string) *fakellm.Server {
	t.Helper()
	server := fakellm.Start(fakellm.Options{Each: func(r fakellm.Request) fakellm.Response {
		if holds(string(r.Body)) {
			return fakellm.Raw{Status: status, ContentType: "application/json", Body: answer}
		}
		return fakellm.Text{Text: "fine"}
	}})
	t.Cleanup(func() { server.Close(); server.Blame(t) })
	return server
}

func has(field string) func(string) bool {
	return func(body string) bool { return strings.Contains(body, field) }
}

func detail(message, kind, param, code string) string {
	raw, _ := json.Marshal(map[string]any{"error": map[string]any{"message": message, "type": kind, "param": param, "code": code}})
	return string(raw)
}

// everything we can add to a request.
func rich() Request {
	warm, share, seed := 0.2, 0.9, int64(7)
	return Request{
		System: "be brief", MaxTokens: 2000, Temperature: &warm, TopP: &share, Stop: []string{"END"}, Seed: &seed, Effort: "low",
		Messages: []Message{
			{Role: "user", Content: "one"},
			{Role: "assistant", ToolCalls: []ToolCall{{"c1", "ls", `{"a":1}`}}, Reasoning: "hm", Thinking: json.RawMessage(`{"extra_content":[{"google":{"thought_signature":"S"}}]}`)},
			{Role: "tool", ToolCallID: "c1", Content: "out"},
			{Role: "user", Content: "two"},
		},
		Tools: []ToolSpec{{Name: "ls", Parameters: json.RawMessage(`{"type":"object","properties":{"pattern":{"type":"string","pattern":"\\S","minLength":1},"a":{"const":"x"}},"additionalProperties":false,"$schema":"s"}`)}},
	}
}

// TestARefusedParameterIsLeftOutOnceAndForGood is the table of what servers refuse, in their own words. Each costs one call more the first time, and
// none after that.
func TestARefusedParameterIsLeftOutOnceAndForGood(t *testing.T) {
	const grammar = "Unable to generate parser for this template. Automatic parser generation failed: JSON schema conversion failed:\nPattern must start with '^' and end with '$'"
	cases := []struct {
		name   string
		holds  func(string) bool
		status int
		answer string
	}{
		{"stream_options, pydantic", has(`"stream_options"`), 422, `{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted","input":{"include_usage":true}}]}`},
		{"stream_options, azure", has(`"stream_options"`), 400, detail("Unrecognized request argument supplied: stream_options", "invalid_request_error", "", "")},
		{"stream_options, mistral", has(`"stream_options"`), 422, `{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]},"code":"1000"}`},
		{"max_tokens wants another name", has(`"max_tokens"`), 400, detail("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "invalid_request_error", "max_tokens", "unsupported_parameter")},
		{"no bound at all", func(b string) bool {
			return strings.Contains(b, `"max_tokens"`) || strings.Contains(b, `"max_completion_tokens"`)
		}, 400, detail("Unsupported parameter: 'max_tokens' and 'max_completion_tokens' are not supported", "invalid_request_error", "", "")},
		{"temperature", has(`"temperature"`), 400, detail("Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.", "invalid_request_error", "temperature", "unsupported_value")},
		{"temperature, deprecated", has(`"temperature"`), 400, detail("`temperature` is deprecated for this model.", "invalid_request_error", "", "")},
		{"top_p", has(`"top_p"`), 400, detail("Unsupported parameter: 'top_p' is not supported with this model.", "invalid_request_error", "top_p", "unsupported_parameter")},
		{"stop", has(`"stop"`), 400, detail("Unsupported parameter: 'stop' is not supported with this model.", "invalid_request_error", "stop", "unsupported_parameter")},
		{"seed, pydantic", has(`"seed"`), 422, `{"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not permitted","input":7}]}`},
		{"seed, gemini", has(`"seed"`), 400, `[{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"seed\": Cannot find field.","status":"INVALID_ARGUMENT"}}]`},
		{"effort, openai", has(`"reasoning_effort"`), 400, detail("Unrecognized request argument supplied: reasoning_effort", "invalid_request_error", "", "")},
		{"effort, ollama", has(`"reasoning_effort"`), 400, detail(`think value "low" is not supported for this model`, "api_error", "", "")},
		{"effort, ollama without thinking", has(`"reasoning_effort"`), 400, detail(`"gemma3" does not support thinking`, "api_error", "", "")},
		{"effort, enumerated", has(`"reasoning_effort"`), 422, `{"detail":[{"type":"literal_error","loc":["body","reasoning_effort"],"msg":"Input should be 'none' or 'high': value is not a valid enumeration member"}]}`},
		{"effort, xai", has(`"reasoning_effort"`), 400, `{"code":"Client specified an invalid argument","error":"Model grok-4-latest does not support parameter reasoningEffort."}`},
		{"effort, enumerated without more", has(`"reasoning_effort"`), 422, `{"detail":[{"type":"literal_error","loc":["body","reasoning_effort"],"msg":"Input should be 'none' or 'high'"}]}`},
		{"temperature beside top_p", func(b string) bool {
			return strings.Contains(b, `"top_p"`) && strings.Contains(b, `"temperature"`) || !strings.Contains(b, `"temperature"`)
		}, 400, detail("`temperature` and `top_p` cannot both be specified for this model. Please use only one.", "invalid_request_error", "", "")},
		{"stop, xai", has(`"stop"`), 400, `{"code":"invalid-argument","error":"Argument not supported on this model: stop"}`},
		{"ids, mistral", has(`"c1"`), 400, `{"object":"error","message":"Tool call id was c1 but must be a-z, A-Z, 0-9, with a length of 9.","type":"invalid_function_call","param":null,"code":"3280"}`},
		{"ids, a template", has(`"c1"`), 500, detail("Jinja Exception: Tool call IDs should be alphanumeric strings with length 9!", "server_error", "", "500")},
		{"ids, mlx", has(`"c1"`), 404, `{"error":"Tool call IDs should be alphanumeric strings with length 9!"}`},
		{"ids, openai", has(`"c1"`), 400, detail("Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 54 instead.", "invalid_request_error", "messages[2].tool_calls[0].id", "string_above_max_length")},
		{"reasoning, deepseek", func(b string) bool { return !strings.Contains(b, `"reasoning_content":"hm"`) }, 400, detail("The `reasoning_content` in the thinking mode must be passed back to the API.", "invalid_request_error", "", "")},
		{"reasoning, kimi", func(b string) bool {
			return strings.Count(b, `"reasoning_content":"`) != 1 || strings.Contains(b, `"reasoning_content":""`)
		}, 400, detail("thinking is enabled but reasoning_content is missing in assistant tool call message at index 2", "invalid_request_error", "", "")},
		{"what another server wants back", has(`"extra_content"`), 400, detail("'messages.2.tool_calls.0' : property 'extra_content' is unsupported", "invalid_request_error", "", "")},
		{"progress", has(`"return_progress"`), 400, detail("Unknown parameter: 'return_progress'.", "invalid_request_error", "return_progress", "unknown_parameter")},
		{"a longer answer than the model writes", has(`"max_tokens":2000`), 400, detail("max_tokens is too large: 2000. This model supports at most 1024 completion tokens, whereas you provided 2000.", "invalid_request_error", "max_tokens", "invalid_value")},
		{"a range of answers", has(`"max_tokens":2000`), 400, detail("Invalid max_tokens value, the valid range of max_tokens is [1, 1024]", "invalid_request_error", "", "invalid_request_error")},
		{"empty content", has(`"content":"","tool_calls"`), 400, detail("messages.1: text content blocks must be non-empty", "invalid_request_error", "", "")},
		{"the system role", has(`"role":"system"`), 500, detail("Jinja Exception: System role not supported", "server_error", "", "")},
		{"roles, llama.cpp", has(`"role":"tool","content":"out"`), 500, detail("While executing CallExpression at line 189, column 32 in source: Error: Jinja Exception: After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results.", "server_error", "", "500")},
		{"roles, in a stream", has(`"role":"tool","content":"out"`), 200, sse(`{"error":{"code":"server_error","message":"rpc error: Error: Jinja Exception: conversation roles must alternate user/assistant/user/assistant/..."}}`)},
		{"a pattern, llama.cpp", has(`"\\S"`), 400, detail(grammar, "invalid_request_error", "", "400")},
		{"a grammar, lm studio", has(`"minLength"`), 400, detail("Failed to initialize samplers: failed to parse grammar", "invalid_request_error", "", "")},
		{"schema keywords, gemini", has(`"additionalProperties"`), 400, `[{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"additionalProperties\" at 'tools[0].function_declarations[0].parameters': Cannot find field.\nInvalid JSON payload received. Unknown name \"const\" at 'tools[0].function_declarations[0].parameters.properties[1].value': Cannot find field.","status":"INVALID_ARGUMENT"}}]`},
		{"schema keywords, openai", has(`"$schema"`), 400, detail("Invalid schema for function 'ls': '$schema' is not permitted.", "invalid_request_error", "tools[0].function.parameters", "invalid_function_parameters")},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server := refusingServer(t, c.holds, c.status, c.answer)
			client, _ := clientOf(t, server)
			got, err := client.Complete(bounded(t), rich(), nil)
			if err != nil || got.Text != "fine" {
				t.Fatalf("%+v, %v after %d calls", got, err, len(server.Requests()))
			}
			first := len(server.Requests())
			if first != 2 {
				t.Errorf("%d calls for the first answer, want 2", first)
			}
			if _, err := client.Complete(bounded(t), rich(), nil); err != nil || len(server.Requests()) != first+1 {
				t.Errorf("%v; %d calls for the second answer, want 1: what was refused is not remembered", err, len(server.Requests())-first)
			}
			if s := client.Stats()[0]; s.Mended != 1 || len(s.Refuses) == 0 && !strings.Contains(c.name, "answer") {
				t.Errorf("counted %+v", s)
			}
			for _, r := range server.Requests() {
				if !json.Valid(r.Body) {
					t.Errorf("sent %s", r.Body)
				}
			}
		})
	}
}

func TestARefusalOfWhatWeDidNotAddFails(t *testing.T) {
	plain := Request{Messages: []Message{{Role: "user", Content: "hi"}}}
	cases := map[string]struct {
		request Request
		answer  string
		calls   int
	}{
		"a parameter that nobody sent":    {plain, detail("Unknown parameter: 'seed'.", "invalid_request_error", "seed", "unknown_parameter"), 1},
		"one of ours that was not sent":   {plain, detail("Unsupported parameter: 'max_tokens' is not supported with this model.", "invalid_request_error", "max_tokens", ""), 1},
		"extra fields without a name":     {plain, detail("Extra inputs are not permitted", "invalid_request_error", "", ""), 1},
		"a template that hates all":       {rich(), detail("conversation roles must alternate user/assistant", "server_error", "", ""), 2},
		"one of ours, whatever is sent":   {rich(), detail("Unsupported parameter: 'temperature'", "invalid_request_error", "temperature", ""), 2},
		"a schema keyword that is not in": {plain, detail("Invalid schema for function 'x': 'pattern' is not permitted", "invalid_request_error", "", ""), 1},
		"a bad role":                      {rich(), detail("messages.1.role must be user", "invalid_request_error", "", ""), 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server := refusingServer(t, func(string) bool { return true }, 400, c.answer)
			client, _ := clientOf(t, server)
			_, err := client.Complete(bounded(t), c.request, nil)
			failed, ok := errors.AsType[*Error](err)
			if !ok || failed.Class != FormatError || failed.Attempts != c.calls || len(server.Requests()) != c.calls {
				t.Errorf("%v after %d calls, want %d", err, len(server.Requests()), c.calls)
			}
			if refused := client.Stats()[0].Refuses; len(refused) > 0 {
				t.Errorf("remembers %v of a server that never answered", refused)
			}
		})
	}
}

// A server may refuse one thing after the other; that ends too.
func TestSeveralRefusalsInARowEnd(t *testing.T) {
	order := []string{"stream_options", "max_tokens", "temperature", "reasoning_effort", "return_progress", "max_completion_tokens"}
	server := fakellm.Start(fakellm.Options{Each: func(r fakellm.Request) fakellm.Response {
		for _, name := range order {
			if _, sent := r.JSON()[name]; sent {
				return fakellm.Error{Status: 400, Message: "Unknown parameter: '" + name + "'."}
			}
		}
		return fakellm.Text{Text: "fine"}
	}})
	t.Cleanup(server.Close)
	client, _ := clientOf(t, server)
	_, err := client.Complete(bounded(t), rich(), nil)
	if err == nil || len(server.Requests()) != 1+mendsMost {
		t.Errorf("%v after %d calls, want %d", err, len(server.Requests()), 1+mendsMost)
	}
}

func TestAnAnswerThatFillsTheWindowIsAskedForShorter(t *testing.T) {
	for _, message := range []string{
		"input length and `max_tokens` exceed context limit: 6000 + 2000 > 7500, decrease input length or `max_tokens` and try again",
		"This model's maximum context length is 7500 tokens. However, you requested 2000 output tokens and your prompt contains at least 6000 input tokens, for a total of at least 8000 tokens.",
		"This model's maximum context length is 7500 tokens. However, you requested 8000 tokens (6000 in the messages, 2000 in the completion). Please reduce the length of the messages or completion.",
		"You passed 6000 input tokens and requested 2000 output tokens. However, the model's context length is only 7500 tokens, resulting in a maximum input length of 5500 tokens.",
		"Requested token count exceeds the model's maximum context length of 7500 tokens. You requested a total of 8000 tokens: 6000 tokens from the input messages and 2000 tokens for the completion.",
		"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 7500. Given: 6000 `inputs` tokens and 2000 `max_new_tokens`",
	} {
		server := refusingServer(t, has(`"max_tokens":2000`), 400, detail(message, "invalid_request_error", "", ""))
		client, _ := clientOf(t, server)
		if got, err := client.Complete(bounded(t), rich(), nil); err != nil || got.Text != "fine" || len(server.Requests()) != 2 {
			t.Errorf("%v after %d calls", err, len(server.Requests()))
		}
		if got := fmt.Sprint(server.Requests()[1].JSON()["max_tokens"]); got != "1484" {
			t.Errorf("asked for %s tokens", got)
		}
		if _, err := client.Complete(bounded(t), rich(), nil); err != nil || len(server.Requests()) != 4 {
			t.Errorf("%v: a shorter answer is this request's alone and not the server's manner", err)
		}
	}
}

func TestStrictTemplatesGetTheirOrder(t *testing.T) {
	m := manner{not: map[string]bool{formRoles: true, formSystem: true}}
	system, rows := m.shape("sys", []Message{
		{Role: "user", Content: "a"},
		{Role: "user", Content: "b"},
		{Role: "assistant", Content: "x"},
		{Role: "assistant", ToolCalls: []ToolCall{{"c", "ls", "{}"}}},
		{Role: "tool", ToolCallID: "c", Content: "out"},
		{Role: "user", Content: "stop that"},
		{Role: "assistant", Content: "y"},
		{Raw: json.RawMessage(`{"role":"user","content":"z"}`)},
	})
	var got []string
	for _, row := range rows {
		got = append(got, row.Role+":"+strings.ReplaceAll(row.Content, "\n", "/"))
	}
	want := "user:sys//a//b|assistant:x|tool:out//[The user writes:]/stop that|assistant:y|user:z"
	if system != "" || strings.Join(got, "|") != want || len(rows[1].ToolCalls) != 1 {
		t.Errorf("%q %q", system, strings.Join(got, "|"))
	}
}

func TestHalfCharactersNeverLeave(t *testing.T) {
	for in, want := range map[string]string{
		`"plain"`:                   `"plain"`,
		`"pair \ud83d\ude00 stays"`: `"pair \ud83d\ude00 stays"`,
		`"high \ud83d alone"`:       `"high \ufffd alone"`,
		`"low \ude00 alone"`:        `"low \ufffd alone"`,
		`"two \ud83d\ud83d\ude00"`:  `"two \ufffd\ud83d\ude00"`,
		`"escaped \\ud83d"`:         `"escaped \\ud83d"`,
		`"odd \\\ud83d"`:            `"odd \\\ufffd"`,
		`"end \uD83D"`:              `"end \ufffd"`,
	} {
		if got := string(wholeRunes([]byte(in))); got != want || !json.Valid([]byte(got)) {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// The same on the other wire, in its server's words.
func TestTheMessagesAPIRefusesInItsOwnWords(t *testing.T) {
	refusal := func(message string) string {
		raw, _ := json.Marshal(map[string]any{"type": "error", "error": map[string]any{"type": "invalid_request_error", "message": message}})
		return string(raw)
	}
	for name, c := range map[string]struct {
		holds  func(string) bool
		answer string
	}{
		"a longer answer than it writes": {has(`"max_tokens":16384`), refusal("max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens for claude-3-5-haiku")},
		"cache marks":                    {has("cache_control"), refusal("system.0.cache_control: Extra inputs are not permitted")},
		"thinking by a budget":           {has("budget_tokens"), refusal(`"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`)},
		"ids":                            {has(`"functions.ls:0"`), refusal("messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")},
		"thinking":                       {has("budget_tokens"), refusal("'claude-3-5-haiku' does not support thinking.")},
		"a temperature":                  {has("temperature"), refusal("`temperature` is deprecated for this model.")},
		"schema keywords":                {has("$schema"), refusal("tools.0.custom.input_schema: '$schema' is not supported")},
	} {
		server := refusingServer(t, c.holds, 400, c.answer)
		client, _ := clientOf(t, server, func(o *Options) { o.API = APIAnthropic })
		request := rich()
		request.MaxTokens = 0
		if name == "a temperature" {
			request.Effort = ""
		}
		request.Messages = request.Messages[:1]
		if name == "ids" {
			request.Messages = []Message{
				{Role: "user", Content: "one"}, {Role: "assistant", ToolCalls: []ToolCall{{"functions.ls:0", "ls", "{}"}}}, {Role: "tool", ToolCallID: "functions.ls:0", Content: "out"},
			}
		}
		for calls := 2; calls <= 3; calls++ {
			if got, err := client.Complete(bounded(t), request, nil); err != nil || got.Text != "fine" || len(server.Requests()) != calls {
				t.Errorf("%s: %v after %d calls, want %d", name, err, len(server.Requests()), calls)
			}
		}
	}
}
