package api

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestBodiesAreBounded(t *testing.T) {
	h, chat := plain(func(o *Options) { o.MaxBody = 2048 })
	long := strings.Replace(hello, "hello", strings.Repeat("x", 3000), 1)
	for _, path := range []string{"/v1/chat/completions", "/api/boards", "/api/boards/x/tasks"} {
		if path != "/v1/chat/completions" {
			h, _ = plain(func(o *Options) { o.MaxBody, o.Boards = 2048, &shelf{} })
		}
		refused(t, ask(h, "POST", path, long), http.StatusRequestEntityTooLarge, "body_too_large")
		unannounced := func(r *http.Request) { r.ContentLength = -1; r.Body = io.NopCloser(strings.NewReader(long)) }
		refused(t, ask(h, "POST", path, "x", unannounced), http.StatusRequestEntityTooLarge, "body_too_large")
	}
	if len(chat.said) != 0 {
		t.Error("a part of a body was taken for the whole")
	}
	h, chat = plain(func(o *Options) { o.MaxBody = int64(len(long)) })
	if w := ask(h, "POST", "/v1/chat/completions", long); w.Code != http.StatusOK || len(chat.last().Text) != 3000 {
		t.Errorf("a body of exactly the bound: %d", w.Code)
	}
}

func TestALengthThatIsAnnouncedIsRefusedUnread(t *testing.T) {
	h, _ := plain(func(o *Options) { o.MaxBody = 2048 })
	w := ask(h, "POST", "/v1/chat/completions", "x", func(r *http.Request) { r.ContentLength = 1 << 40; r.Body = unread{t} })
	refused(t, w, http.StatusRequestEntityTooLarge, "body_too_large")
}

type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) { u.t.Error("the body was read"); return 0, io.EOF }
func (u unread) Close() error             { return nil }

func TestLongTextsArriveWhole(t *testing.T) {
	for _, n := range []int{60_000, 65_536, 100_000, 5 << 20} {
		h, chat := plain(nil)
		if w := ask(h, "POST", "/v1/chat/completions", strings.Replace(hello, "hello", strings.Repeat("x", n), 1)); w.Code != http.StatusOK || len(chat.last().Text) != n {
			t.Errorf("%d bytes: %d", n, w.Code)
		}
	}
}

func TestOnlyJSONIsRead(t *testing.T) {
	h, _ := plain(nil)
	for kind, want := range map[string]int{
		"application/json": 200, "application/json; charset=utf-8": 200, "Application/JSON;charset=UTF-8": 200, "application/vnd.api+json": 200, "": 200,
		"application/x-www-form-urlencoded": 415, "text/plain": 415, "multipart/form-data; boundary=x": 415, "application/json; charset=latin1": 415, ";;": 415,
	} {
		w := ask(h, "POST", "/v1/chat/completions", hello, func(r *http.Request) {
			r.Header.Del("Content-Type")
			if kind != "" {
				r.Header.Set("Content-Type", kind)
			}
		})
		if w.Code != want {
			t.Errorf("%q: %d %s", kind, w.Code, w.Body)
		}
	}
	refused(t, ask(h, "POST", "/v1/chat/completions", hello, header("Content-Encoding", "gzip")), http.StatusUnsupportedMediaType, "unsupported_media_type")
	for body, code := range map[string]string{
		" ": "invalid_json", "null": "invalid_json", "[]": "invalid_json", `"x"`: "invalid_json", "{": "invalid_json", hello + "x": "invalid_json", hello + hello: "invalid_json",
		`{"a":` + strings.Repeat("[", 20000): "invalid_json", "{\"model\":\"\xff\"}": "invalid_encoding",
	} {
		refused(t, ask(h, "POST", "/v1/chat/completions", body), http.StatusBadRequest, code)
	}
	half := func(r *http.Request) { r.Body = io.NopCloser(io.MultiReader(strings.NewReader(hello[:20]), broken{})) }
	refused(t, ask(h, "POST", "/v1/chat/completions", hello, half), http.StatusBadRequest, "body_unreadable")
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("gone") }

func TestAWrongTypeNamesItsField(t *testing.T) {
	h, chat := plain(nil)
	user := `{"role":"user","content":"hi"}`
	cases := map[string]string{ // body → param
		`{"messages":` + `"hi"}`: "messages",
		`{"messages":{}}`:        "messages",
		`{"messages":[]}`:        "messages",
		`{}`:                     "messages",
		`{"messages":null}`:      "messages",
		`{"messages":[7]}`:       "messages[0]",
		`{"messages":[null]}`:    "messages[0]",
		`{"messages":[` + user + `,{"role":7,"content":"x"}]}`:                                                                             "messages[1].role",
		`{"messages":[{"role":"robot","content":"x"}]}`:                                                                                    "messages[0].role",
		`{"messages":[{"content":"x"}]}`:                                                                                                   "messages[0].role",
		`{"messages":[{"role":"user","content":7}]}`:                                                                                       "messages[0].content",
		`{"messages":[{"role":"user","content":{"text":"x"}}]}`:                                                                            "messages[0].content",
		`{"messages":[{"role":"user","content":["x"]}]}`:                                                                                   "messages[0].content[0]",
		`{"messages":[{"role":"user","content":[{"type":"text"}]}]}`:                                                                       "messages[0].content[0].text",
		`{"messages":[{"role":"user","content":[{"type":"text","text":1}]}]}`:                                                              "messages[0].content[0].text",
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}]}`:                                      "messages[0].content[0].image_url.url",
		`{"messages":[{"role":"user","content":[` + strings.Repeat(`{"type":"text","text":"x"},`, 1000) + `{"type":"text","text":"x"}]}]}`: "messages[0].content",
		`{"messages":[{"role":"assistant","tool_calls":[7]},` + user + `]}`:                                                                "messages[0].tool_calls[0]",
		`{"messages":[{"role":"assistant","tool_calls":[{"id":1}]},` + user + `]}`:                                                         "messages[0].tool_calls[0].id",
		`{"messages":[{"role":"assistant","tool_calls":[{"function":{"arguments":{}}}]},` + user + `]}`:                                    "messages[0].tool_calls[0].function.arguments",
		`{"messages":[{"role":"user","content":" "}]}`:                                                                                     "messages",
		`{"messages":[` + user + `,{"role":"assistant","content":"prefill"}]}`:                                                             "messages",
		`{"messages":[{"role":"system","content":"x"}]}`:                                                                                   "messages",
		`{"stream":"yes","messages":[` + user + `]}`:                                                                                       "stream",
		`{"stream":1,"messages":[` + user + `]}`:                                                                                           "stream",
		`{"model":["x"],"messages":[` + user + `]}`:                                                                                        "model",
		`{"stream_options":[],"messages":[` + user + `]}`:                                                                                  "stream_options",
		`{"stream_options":{"include_usage":"x"},"messages":[` + user + `]}`:                                                               "stream_options.include_usage",
		`{"n":2,"messages":[` + user + `]}`:                                                                                                "n",
		`{"n":1.5,"messages":[` + user + `]}`:                                                                                              "n",
	}
	for body, param := range cases {
		w := ask(h, "POST", "/v1/chat/completions", body)
		inner, _ := decoded(t, w)["error"].(map[string]any)
		message, _ := inner["message"].(string)
		if w.Code != http.StatusBadRequest || inner["param"] != param || !strings.Contains(message, param) {
			t.Errorf("%.120s: %d %v; want %s", body, w.Code, inner, param)
		}
	}
	if len(chat.said) != 0 {
		t.Error("a wrong request was heard by the gateway")
	}
	w := ask(h, "POST", "/v1/chat/completions", hello, header(headerSession, "../../etc"))
	if inner := refused(t, w, http.StatusBadRequest, "invalid_value"); inner["param"] != headerSession {
		t.Errorf("%v", inner)
	}
}

func TestUnknownFieldsAreNobodysBusiness(t *testing.T) {
	h, chat := plain(nil)
	body := `{"presence_penalty":"hot","tools":7,"user":null,"n":null,"stream":null,"stream_options":null,"model":null,"metadata":[],"messages":[
		{"role":"developer","content":[{"type":"text","text":"be"},{"type":"text","text":"kind"}]},{"role":"system","content":"and brief"},
		{"role":"user","content":"one","name":"ann"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c","content":"r"},{"role":"user","content":[{"type":"text","text":"two"}],"odd":1}]}`
	if w := ask(h, "POST", "/v1/chat/completions", body); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	say := chat.last()
	if say.Text != "two" || len(say.History) != 3 || say.History[1].ToolCalls[0].Name != "f" || say.History[2].ToolCallID != "c" || !strings.HasSuffix(say.System, "\n\nbe\nkind\n\nand brief") {
		t.Errorf("%+v", say)
	}
}

// FuzzCompletion holds that a body is either refused with a 4xx that says something, or has a text to answer.
func FuzzCompletion(f *testing.F) {
	f.Add([]byte(hello))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"stream":true,"n":1}`))
	f.Add([]byte(`{"messages":[{"role":"assistant","tool_calls":[{"function":{}}]},{"role":"user","content":"x"}]}`))
	f.Add([]byte(`{"messages":7}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := parseCompletion(body)
		if err == nil {
			if strings.TrimSpace(c.Text) == "" {
				t.Errorf("accepted without a text: %s", body)
			}
			_ = derivedSession(c)
			return
		}
		if e := asRefusal(err); e.status < 400 || e.status > 499 || e.message == "" {
			t.Errorf("%d %q for %s", e.status, e.message, body)
		}
	})
}

// FuzzCard holds the same for a new card.
func FuzzCard(f *testing.F) {
	f.Add([]byte(`{"title":"x","parents":["a"],"priority":1,"max_retries":null}`))
	f.Add([]byte(`{"title":7}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := parseObject(body)
		if err == nil {
			_, err = parseCard(o)
		}
		if err != nil {
			if e := asRefusal(err); e.status != 400 || e.message == "" {
				t.Errorf("%d %q for %s", e.status, e.message, body)
			}
		}
	})
}
