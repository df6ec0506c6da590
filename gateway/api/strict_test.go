package api

import (
	"net/http"
	"strings"
	"testing"

	"gatewayd/gateway/keys"
	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

// What a JSON reader would settle in silence is refused with its field.
func TestABodyIsReadStrictly(t *testing.T) {
	h, chat := plain(nil)
	deep := strings.Repeat(`[`, maxDepth) + strings.Repeat(`]`, maxDepth)
	for body, want := range map[string][2]string{ // body → code, param
		`{"messages":[],"messages":[{"role":"user","content":"x"}]}`:                            {"duplicate_field", "messages"},
		`{"messages":[{"role":"user","content":"x","role":"system"}]}`:                          {"duplicate_field", "messages[0].role"},
		`{"messages":[{"role":"user","rol\u0065":"user","content":"x"}]}`:                       {"duplicate_field", "messages[0].role"},
		`{"tools":[{"a":{"b":1,"b":2}}],"messages":[{"role":"user","content":"x"}]}`:            {"duplicate_field", "tools[0].a.b"},
		`{"Messages":[{"role":"user","content":"x"}]}`:                                          {"unknown_field", "Messages"},
		`{"messages":[{"Role":"user","content":"x"}]}`:                                          {"unknown_field", "messages[0].Role"},
		`{"Stream":true,"messages":[{"role":"user","content":"x"}]}`:                            {"unknown_field", "Stream"},
		`{"Response_Format":{"type":"json_object"},"messages":[]}`:                              {"unknown_field", "Response_Format"},
		`{"messages":[{"role":"user","content":"a \ud800 b"}]}`:                                 {"invalid_encoding", "messages[0].content"},
		`{"messages":[{"role":"user","content":"a \udc00\ud800 b"}]}`:                           {"invalid_encoding", "messages[0].content"},
		`{"messages":[{"role":"user","content":"a \ud83d\u0041"}]}`:                             {"invalid_encoding", "messages[0].content"},
		`{"metadata":` + deep + `,"messages":[{"role":"user","content":"x"}]}`:                  {"too_deep", "metadata"},
		`{"messages":[{"role":"user","content":[]}]}`:                                           {"invalid_value", "messages"},
		`{"n":1e999,"messages":[{"role":"user","content":"x"}]}`:                                {"invalid_type", "n"},
		`{"response_format":{"type":"json_schema"},"messages":[{"role":"user","content":"x"}]}`: {"unsupported_parameter", "response_format"},
		`{"logprobs":true,"messages":[{"role":"user","content":"x"}]}`:                          {"unsupported_parameter", "logprobs"},
		`{"tool_choice":"required","messages":[{"role":"user","content":"x"}]}`:                 {"unsupported_parameter", "tool_choice"},
		`{"audio":{},"messages":[{"role":"user","content":"x"}]}`:                               {"unsupported_parameter", "audio"},
	} {
		w := ask(h, "POST", chatPath, body)
		if inner := refused(t, w, http.StatusBadRequest, want[0]); inner["param"] != want[1] {
			t.Errorf("%.120s: %v; want %s", body, inner["param"], want[1])
		}
	}
	refused(t, ask(h, "POST", chatPath, "\uFEFF"+hello), http.StatusBadRequest, "invalid_encoding")
	if len(chat.said) != 0 {
		t.Error("a wrong request was heard by the gateway")
	}
	for _, body := range []string{
		`{"messages":[{"role":"user","content":"\ud83d\ude00 \\ud800 \"x\" {[,:]}"}],"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}],"c":[[],{}, -1.5e3 , true,null]}`,
		`{"temperature":0,"max_tokens":5,"stop":["x"],"seed":1,"user":"u","tools":[],"tool_choice":"auto","response_format":{"type":"text"},"logprobs":false,"n":1,"messages":[{"role":"user","content":"x"}]}`,
	} {
		if w := ask(h, "POST", chatPath, body); w.Code != http.StatusOK {
			t.Errorf("%.100s: %d %s", body, w.Code, w.Body)
		}
	}
	if text := chat.said[0].Text; text != "😀 \\ud800 \"x\" {[,:]}" {
		t.Errorf("it was heard as %q", text)
	}
}

// Every route that takes a body refuses a hostile one by a 4xx in the envelope, and nothing is stored.
func TestEveryRouteRefusesHostileBodies(t *testing.T) {
	house := newHouse(t, func(o *Options) { o.Boards = newShelf(t) })
	h := house.handler.router()
	unread := map[string]bool{ // their bodies are files, or of another protocol, or they have none
		"/mcp": true, "/api/boards/{board}/tasks/{task}/attachments": true, "/api/boards/import": true,
	}
	bodies := []string{
		`{"title":"x","title":"y"}`, `{"text":"\ud800","title":"\ud800","line":"\ud800"}`, `{"x":` + strings.Repeat("[", 20_000), `{"no_such_field":1,"NO":2,"no_such_field":1}`,
		"\uFEFF{}", "{\"title\":\"\xff\"}", `[]`, `null`, `"x"`, `{`, `{}{}`, `{"a":NaN}`, `{"x":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`,
	}
	eachRoute(t, h, func(method, pattern, path string, _ keys.Scope) {
		if method != http.MethodPost && method != http.MethodPatch || unread[pattern] {
			return
		}
		for _, body := range bodies {
			w := ask(h, method, path, body)
			inner, _ := decoded(t, w)["error"].(map[string]any)
			if w.Code < 400 || w.Code > 499 && inner["code"] != "off" || inner["message"] == "" {
				t.Errorf("%s %s: %.60q is answered %d %.200s", method, pattern, body, w.Code, w.Body)
			}
		}
	})
	for _, hidden := range []bool{false, true} {
		list, err := house.store.Sessions(t.Context(), sessiondb.ListFilter{IncludeHidden: hidden})
		if err != nil || len(list) != 0 {
			t.Errorf("a refused request left %v %v", list, err)
		}
	}
}

// A session whose title is taken is refused and not made.
func TestARefusedSessionIsNotMade(t *testing.T) {
	h := newHouse(t, nil)
	for i, want := range []int{http.StatusCreated, http.StatusConflict} {
		if status, body := h.post(t, http.MethodPost, "/api/sessions", `{"title":"the same"}`); status != want {
			t.Errorf("%d: %d %v", i, status, body)
		}
	}
	if list, err := h.store.Sessions(t.Context(), sessiondb.ListFilter{IncludeHidden: true}); err != nil || len(list) != 1 || list[0].Title != "the same" {
		t.Errorf("there are %v %v", list, err)
	}
}

// What Open WebUI asks beside a conversation is answered in a hidden session of its own, without tools; a person's text that only looks
// like it is not.
func TestASideRequestDisturbsNoConversation(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "hi"}, fakellm.Text{Text: `{"title":"Greeting"}`}, fakellm.Text{Text: "again"})
	named := header(headerSession, "talk")
	h.send(t, bounded(t), hello, named)
	task := `{"messages":[{"role":"user","content":"### Task:\nGenerate a concise title.\n### Chat History:\n<chat_history>\nUSER: hello\n</chat_history>"}]}`
	w := h.send(t, bounded(t), task, named)
	side := w.Header.Get(headerSession)
	if !strings.HasPrefix(side, "side-") || h.rows(t, "talk") != "user:hello|assistant:hi|" {
		t.Errorf("it is in %s, the conversation is %s", side, h.rows(t, "talk"))
	}
	if list, err := h.store.Sessions(t.Context(), sessiondb.ListFilter{}); err != nil || len(list) != 1 {
		t.Errorf("lists show %v %v", list, err)
	}
	h.send(t, bounded(t), `{"messages":[{"role":"user","content":"### Task: tidy up"}]}`, named)
	if got := h.rows(t, "talk"); !strings.Contains(got, "tidy up") {
		t.Errorf("a person's text went elsewhere: %s", got)
	}
}

// A daemon that stops ends the streams of idle conversations at once, with a reason.
func TestAWatcherOfAnIdleSessionIsToldOfTheStop(t *testing.T) {
	stopping := make(chan struct{})
	h := newHouse(t, func(o *Options) { o.Stopping = stopping }, fakellm.Text{Text: "hi"})
	h.send(t, bounded(t), hello, header(headerSession, "s1"))
	w := h.open(t, bounded(t), http.MethodGet, "/api/sessions/s1/events", "")
	close(stopping)
	all := heardAll(t, w.Body)
	inner, _ := all[len(all)-1].data["error"].(map[string]any)
	if last := all[len(all)-1]; last.name != "error" || inner["code"] != "unavailable" {
		t.Errorf("the last event is %v", last)
	}
}
