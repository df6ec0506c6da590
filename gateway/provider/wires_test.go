package provider

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
)

// writer writes the chunks of one wire by hand.
type writer struct {
	api               string
	text              func(string) string
	call              func(id, name, arguments string) string
	stop, end, broken string
	fault             func(message, kind string, code int) string
}

func chatWriter() writer {
	quoted := func(s string) string { raw, _ := json.Marshal(s); return string(raw) }
	return writer{
		api:  APIOpenAI,
		text: func(s string) string { return sse(`{"choices":[{"delta":{"content":` + quoted(s) + `}}]}`) },
		call: func(id, name, arguments string) string {
			return sse(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"` + id + `","function":{"name":"` + name + `","arguments":` + quoted(arguments) + `}}]}}]}`)
		},
		stop: sse(stop), end: sse("[DONE]"), broken: "data: {oops\n\n",
		fault: func(message, kind string, code int) string {
			raw, _ := json.Marshal(map[string]any{"error": map[string]any{"message": message, "type": kind, "code": code}})
			return sse(string(raw))
		},
	}
}

func messagesWriter() writer {
	event := func(name string, payload any) string {
		raw, _ := json.Marshal(payload)
		return "event: " + name + "\ndata: " + string(raw) + "\n\n"
	}
	type m = map[string]any
	return writer{
		api: APIAnthropic,
		text: func(s string) string {
			return event("content_block_start", m{"type": "content_block_start", "index": 0, "content_block": m{"type": "text", "text": ""}}) +
				event("content_block_delta", m{"type": "content_block_delta", "index": 0, "delta": m{"type": "text_delta", "text": s}})
		},
		call: func(id, name, arguments string) string {
			return event("content_block_start", m{"type": "content_block_start", "index": 1, "content_block": m{"type": "tool_use", "id": id, "name": name, "input": m{}}}) +
				event("content_block_delta", m{"type": "content_block_delta", "index": 1, "delta": m{"type": "input_json_delta", "partial_json": arguments}})
		},
		stop:   event("message_delta", m{"type": "message_delta", "delta": m{"stop_reason": "end_turn"}, "usage": m{"output_tokens": 3}}),
		end:    event("message_stop", m{"type": "message_stop"}),
		broken: "event: content_block_delta\ndata: {oops\n\n",
		fault: func(message, kind string, _ int) string {
			return event("error", m{"type": "error", "error": m{"type": kind, "message": message}})
		},
	}
}

// TestAMisbehavingServer is the table of what servers do wrong and what becomes of it, on both wires. calls is how many requests it costs.
func TestAMisbehavingServer(t *testing.T) {
	for _, w := range []writer{chatWriter(), messagesWriter()} {
		good := fakellm.Text{Text: "fine"}
		raw := func(body string) fakellm.Raw { return fakellm.Raw{Body: body} }
		hello := w.text("hello")
		fail := func(status, times int) (list []fakellm.Response) {
			for range times {
				list = append(list, fakellm.Error{Status: status})
			}
			return list
		}
		cases := []struct {
			name   string
			script []fakellm.Response
			text   string // of the answer
			class  Class  // or of the error
			calls  int
		}{
			{"no end after a reason", []fakellm.Response{raw(hello + w.stop)}, "hello", "", 1},
			{"the end twice", []fakellm.Response{raw(hello + w.stop + w.stop + w.end + w.end)}, "hello", "", 1},
			{"an end without a reason", []fakellm.Response{raw(hello + w.end)}, "hello", "", 1},
			{"the end before a reason", []fakellm.Response{raw(hello)}, "", Transport, 1},
			{"a drop before any text is retried", []fakellm.Response{fakellm.DropMidStream{}, fakellm.Hang{Release: opened()}, good}, "fine", "", 3},
			{"a drop after text is not", []fakellm.Response{fakellm.DropMidStream{Text: "some text here", After: 1}, good}, "", Transport, 1},
			{"a drop after the reason", []fakellm.Response{fakellm.DropMidStream{Text: "whole", After: 9, Finish: "stop"}}, "whole", "", 1},
			{"garbage after the reason", []fakellm.Response{raw(hello + w.stop + w.broken)}, "hello", "", 1},
			{"a drop inside arguments", []fakellm.Response{raw(w.call("c", "rm", `{"path":`)), good}, "fine", "", 2},
			{"a chunk that is no JSON", []fakellm.Response{raw(w.broken), good}, "fine", "", 2},
			{"a web page", []fakellm.Response{fakellm.Raw{ContentType: "text/html", Body: "<html>\n<body>login</body></html>"}, good}, "fine", "", 2},
			{"nothing at all", []fakellm.Response{raw(""), good}, "fine", "", 2},
			{"garbage for ever", []fakellm.Response{raw("x"), raw("x"), raw("x"), raw("x"), good}, "", Transport, 4},
			{"carriage returns", []fakellm.Response{raw(strings.ReplaceAll(hello+w.stop+w.end, "\n", "\r"))}, "hello", "", 1},
			{"both line ends and a mark", []fakellm.Response{raw("\xef\xbb\xbf" + strings.ReplaceAll(hello+w.stop+w.end, "\n", "\r\n"))}, "hello", "", 1},
			{"no blank lines", []fakellm.Response{raw(strings.ReplaceAll(hello+w.stop+w.end, "\n\n", "\n"))}, "hello", "", 1},
			{"an error as a field", []fakellm.Response{raw(`error: {"code":500,"message":"slot failed","type":"server_error"}` + "\n\n"), good}, "fine", "", 2},
			{"an error without its name", []fakellm.Response{raw(`{"code":"InvalidParameter","message":"bad","request_id":"x"}`), good}, "", FormatError, 1},
			{"comments between everything", []fakellm.Response{raw(": a\r\n\r\n" + hello + ": b\n\n" + w.stop + w.end)}, "hello", "", 1},
			{"no space behind the colon", []fakellm.Response{raw(strings.ReplaceAll(hello+w.stop+w.end, "data: ", "data:"))}, "hello", "", 1},
			{"an overloaded server in a 200", []fakellm.Response{raw(w.fault("Overloaded", "overloaded_error", 529)), good}, "fine", "", 2},
			{"a refusal in a 200", []fakellm.Response{raw(w.fault("bad request", "invalid_request_error", 400)), good}, "", FormatError, 1},
			{"an overflow in a 200", []fakellm.Response{raw(w.fault("prompt is too long: 9 tokens > 8 maximum", "invalid_request_error", 400)), good}, "", ContextOverflow, 1},
			{"401", append(fail(401, 1), good), "", Auth, 1},
			{"400", []fakellm.Response{fakellm.Error{Status: 400, Message: "bad role"}, good}, "", FormatError, 1},
			{"400 for ever", append(fail(400, 4), good), "", FormatError, 1},
			{"422", append(fail(422, 1), good), "", FormatError, 1},
			{"404", append(fail(404, 1), good), "", ModelNotFound, 1},
			{"402", append(fail(402, 1), good), "", Billing, 1},
			{"413", append(fail(413, 1), good), "", PayloadTooLarge, 1},
			{"500 twice", []fakellm.Response{fakellm.Error{Status: 500}, fakellm.Error{Status: 502}, good}, "fine", "", 3},
			{"500 for ever", append(fail(500, 4), good), "", ServerError, 4},
			{"529 for ever", append(fail(529, 4), good), "", Overloaded, 4},
			{"429 for ever", append(fail(429, 4), good), "", RateLimit, 4},
			{"an odd status is tried once more", append(fail(299, 1), good), "fine", "", 2},
			{"an odd status for ever", append(fail(299, 3), good), "", Unknown, 2},
			{"overflow", []fakellm.Response{fakellm.Error{Status: 400, Message: "maximum context length is 4096 tokens"}, good}, "", ContextOverflow, 1},
			{"a redirect", []fakellm.Response{fakellm.Raw{Status: 307, Header: map[string]string{"Location": "http://127.0.0.1:1/"}}, good}, "", FormatError, 1},
		}
		for _, c := range cases {
			t.Run(w.api+"/"+c.name, func(t *testing.T) {
				server := fakellm.New(t, c.script...)
				client, _ := clientOf(t, server, func(o *Options) { o.API = w.api })
				s := newSeen()
				got, err := client.Complete(bounded(t), ask, s.sink)
				if calls := len(server.Requests()); calls != c.calls {
					t.Errorf("%d calls, want %d", calls, c.calls)
				}
				if c.class == "" {
					if err != nil || got.Text != c.text || s.text() != c.text {
						t.Fatalf("got %q, shown %q, %v; want %q", got.Text, s.text(), err, c.text)
					}
					return
				}
				failed, ok := errors.AsType[*Error](err)
				if !ok || failed.Class != c.class || failed.Attempts != c.calls {
					t.Fatalf("got %+v, %v; want class %s", got, err, c.class)
				}
				if failed.Partial.Text != s.text() {
					t.Errorf("shown %q, kept %q", s.text(), failed.Partial.Text)
				}
				if strings.Contains(err.Error(), "sk-very") || strings.ContainsAny(err.Error(), "\r\n") {
					t.Errorf("error for a person: %q", err)
				}
				if counted := client.Stats()[0]; counted.Calls != int64(c.calls) || counted.Failed[c.class] == 0 || len(counted.Recent) != c.calls {
					t.Errorf("counted %+v", counted)
				}
			})
		}
	}
}

func TestToolCallsAndUsageOnBothWires(t *testing.T) {
	for _, api := range []string{APIOpenAI, APIAnthropic} {
		server := fakellm.New(t, fakellm.ToolCall{
			Name: "ls", Args: map[string]any{"path": "/tmp"}, Text: "let me look", Parallel: []fakellm.ToolCall{{Name: "now"}, {Name: "rm", Args: `{"path": "/`}},
			Usage: fakellm.Usage{Prompt: 100, Completion: 7, Cached: 60},
		})
		client, _ := clientOf(t, server, func(o *Options) { o.API = api })
		got, err := client.Complete(bounded(t), ask, nil)
		if err != nil || got.Text != "let me look" || got.FinishReason != "tool_calls" || len(got.ToolCalls) != 3 {
			t.Fatalf("%s: %+v, %v", api, got, err)
		}
		a, b, c := got.ToolCalls[0], got.ToolCalls[1], got.ToolCalls[2]
		if a != (ToolCall{"call_fake_1", "ls", `{"path":"/tmp"}`}) || b != (ToolCall{"call_fake_2", "now", "{}"}) || c.Arguments != `{"path": "/` || c.Complete() {
			t.Errorf("%s: %+v", api, got.ToolCalls)
		}
		if got.Usage != (Usage{Prompt: 100, Completion: 7, Cached: 60}) {
			t.Errorf("%s: %+v", api, got.Usage)
		}
	}
}

// What a stream that broke had cost is not forgotten when the next attempt answers, and nothing is counted twice.
func TestUsageIsTheSumOfWhatTheServerCounted(t *testing.T) {
	counted := sse(`{"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":0}}`)
	twice := sse(hello, stop, `{"choices":[],"usage":{"prompt_tokens":60,"completion_tokens":2}}`, `{"choices":[],"usage":{"prompt_tokens":60,"completion_tokens":2}}`, "[DONE]")
	client, _ := clientOf(t, fakellm.New(t, fakellm.Raw{Body: counted}, fakellm.Raw{Body: twice}))
	got, err := client.Complete(bounded(t), ask, nil)
	if err != nil || got.Usage != (Usage{Prompt: 110, Completion: 2}) {
		t.Errorf("%+v, %v", got.Usage, err)
	}
	client, _ = clientOf(t, fakellm.New(t, fakellm.Raw{Body: counted}, fakellm.Raw{Body: counted}), func(o *Options) { o.MaxRetries = 1 })
	_, err = client.Complete(bounded(t), ask, nil)
	if failed, ok := errors.AsType[*Error](err); !ok || failed.Partial.Usage != (Usage{Prompt: 100}) {
		t.Errorf("%+v", err)
	}
}
