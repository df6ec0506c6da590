package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/vigil"
	"gatewayd/sessiondb"
)

// post sends a request to the house and gives the status and the body.
func (h *house) post(t *testing.T, method, path, body string) (int, map[string]any) {
	t.Helper()
	w := h.open(t, bounded(t), method, path, body)
	raw, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%s %s: %v: %s", method, path, err, raw)
	}
	return w.StatusCode, out
}

func (h *house) open(t *testing.T, ctx context.Context, method, path, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, h.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testKey)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w, err := h.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Body.Close() })
	return w
}

// heard is one server-sent event.
type heard struct {
	name string
	data map[string]any
}

// nextFrame reads to the next event.
func nextHeard(t *testing.T, r *bufio.Reader) (heard, bool) {
	t.Helper()
	var f heard
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return f, false
		}
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			f.name = name
		} else if data, ok := strings.CutPrefix(line, "data: "); ok {
			if err := json.Unmarshal([]byte(data), &f.data); err != nil {
				t.Fatal(err)
			}
		} else if line == "" && f.data != nil {
			return f, true
		}
	}
}

func heardAll(t *testing.T, body io.Reader) (all []heard) {
	t.Helper()
	for r := bufio.NewReader(body); ; {
		f, more := nextHeard(t, r)
		if !more {
			return all
		}
		all = append(all, f)
	}
}

func names(all []heard) string {
	var out []string
	for _, f := range all {
		if len(out) == 0 || out[len(out)-1] != f.name {
			out = append(out, f.name)
		}
	}
	return strings.Join(out, " ")
}

// until waits for what other goroutines do, by what the store tells.
func (h *house) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !vigil.Until(time.Minute, bounded(t).Done(), ok) {
		t.Fatalf("%s never came", what)
	}
}

func TestAMessageIsAcceptedAndAnsweredByItself(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "fine"})
	status, body := h.post(t, http.MethodPost, "/api/sessions/s1/messages", `{"text":"hello","uid":"u1"}`)
	accepted, _ := body["accepted"].(map[string]any)
	if status != http.StatusAccepted || body["session"] != "s1" || accepted["uid"] != "u1" {
		t.Fatalf("%d %v", status, body)
	}
	h.until(t, "the answer", func() bool { return h.rows(t, "s1") == "user:hello|assistant:fine|" })
	if status, _ = h.post(t, http.MethodPost, "/api/sessions/s1/messages", `{"text":"hello","uid":"u1"}`); status != http.StatusAccepted {
		t.Errorf("said twice: %d", status)
	}
	if got := h.rows(t, "s1"); got != "user:hello|assistant:fine|" {
		t.Errorf("it is there twice: %s", got)
	}
}

func TestAMessageThatIsWaitedForIsAStreamWithAnEnd(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "fine words", Reasoning: "hm"})
	w := h.open(t, bounded(t), http.MethodPost, "/api/sessions/s1/messages", `{"text":"hello","wait":true,"source":"cli"}`)
	all := heardAll(t, w.Body)
	if got := names(all); got != "model reasoning delta ended" {
		t.Errorf("events: %s", got)
	}
	said := ""
	for _, f := range all {
		if f.name == "delta" {
			said += fmt.Sprint(f.data["text"])
		}
	}
	end := all[len(all)-1].data
	if said != "fine words" || end["text"] != "fine words" || end["completed"] != true || end["session"] != "s1" || end["last_row"] == nil {
		t.Errorf("said %q, end %v", said, end)
	}
}

// The client is the turn's owner: when it goes, the turn ends, and its rows are closed.
func TestATurnThatIsWaitedForEndsWithItsClient(t *testing.T) {
	h := newHouse(t, nil, fakellm.Hang{})
	ctx, leave := context.WithCancel(bounded(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, h.URL+"/api/sessions/s1/messages", strings.NewReader(`{"text":"hello","wait":true}`))
		r.Header.Set("Authorization", "Bearer "+testKey)
		if w, err := h.Client().Do(r); err == nil {
			_, _ = io.Copy(io.Discard, w.Body)
			_ = w.Body.Close()
		}
	}()
	if _, err := h.llm.Wait(bounded(t), 1); err != nil {
		t.Fatal(err)
	}
	leave()
	<-done
	h.until(t, "the closing row", func() bool { return strings.Contains(h.rows(t, "s1"), "client disconnected") })
}

func TestAMessageForAnIdleConversationIsRefusedBesideATurn(t *testing.T) {
	h := newHouse(t, nil, fakellm.Hang{})
	go func() {
		_, _ = h.chat.Say(context.Background(), gateway.Say{Session: "s1", Source: gateway.SourceAPI, Text: "hang"}, nil)
	}()
	if _, err := h.llm.Wait(bounded(t), 1); err != nil {
		t.Fatal(err)
	}
	for _, wait := range []string{"true", "false"} {
		status, body := h.post(t, http.MethodPost, "/api/sessions/s1/messages", `{"text":"more","mode":"refuse","wait":`+wait+`}`)
		inner, _ := body["error"].(map[string]any)
		if status != http.StatusConflict || inner["code"] != "turn_running" {
			t.Errorf("wait %s: %d %v", wait, status, body)
		}
	}
	if status, body := h.post(t, http.MethodPost, "/api/sessions/s1/commands", `{"line":"/undo"}`); status != http.StatusConflict {
		t.Errorf("/undo beside a turn: %d %v", status, body)
	}
	if status, body := h.post(t, http.MethodPost, "/api/sessions/s1/commands", `{"line":"/status"}`); status != http.StatusOK || !strings.Contains(fmt.Sprint(body["text"]), "model") {
		t.Errorf("/status beside a turn: %d %v", status, body)
	}
	if status, body := h.post(t, http.MethodPost, "/api/sessions/s1/stop", ""); status != http.StatusOK || body["stopped"] != true {
		t.Errorf("stop: %d %v", status, body)
	}
	h.until(t, "the closing row", func() bool { return strings.Contains(h.rows(t, "s1"), "Stopped by the user") })
	h.until(t, "the end of the turn", func() bool { return len(h.chat.Status().Running) == 0 })
	if _, body := h.post(t, http.MethodPost, "/api/sessions/s1/stop", ""); body["stopped"] != false {
		t.Errorf("stop without a turn: %v", body)
	}
}

// Whoever attaches sees the turn that runs, and what it was not told of before.
func TestEventsOfARunningTurnAreSeenByWhoComesLater(t *testing.T) {
	gate := make(chan struct{})
	h := newHouse(t, nil, fakellm.Text{Text: "one two three four", ChunkChars: 4, Gate: gate})
	if status, body := h.post(t, http.MethodPost, "/api/sessions/s1/messages", `{"text":"hello"}`); status != http.StatusAccepted {
		t.Fatalf("%d %v", status, body)
	}
	gate <- struct{}{}
	ctx, leave := context.WithCancel(bounded(t))
	defer leave()
	r := bufio.NewReader(h.open(t, ctx, http.MethodGet, "/api/sessions/s1/events", "").Body)
	close(gate)
	said := ""
	for {
		f, more := nextHeard(t, r)
		if !more {
			t.Fatal("the stream ended before the turn")
		}
		if f.name == "delta" {
			said += fmt.Sprint(f.data["text"])
		}
		if f.name == "ended" {
			result, _ := f.data["result"].(map[string]any)
			if said != "one two three four" || result["text"] != said || f.data["turn"] == "" {
				t.Errorf("said %q, end %v", said, f.data)
			}
			return
		}
	}
}

func TestEventsOfNobodyAreNotFound(t *testing.T) {
	h, _ := plain(nil)
	refused(t, ask(h, http.MethodGet, "/api/sessions/nobody/events", ""), http.StatusNotFound, "not_found")
}

func TestARefusedMessageSaysWhichField(t *testing.T) {
	h, chat := plain(nil)
	for body, field := range map[string]string{
		`{}`: "text", `{"text":"  "}`: "text", `{"text":1}`: "text", `{"text":"x","mode":"shout"}`: "mode", `{"text":"x","source":"notify"}`: "source",
		`{"text":"x","wiat":true}`: "wiat",
	} {
		w := ask(h, http.MethodPost, "/api/sessions/s1/messages", body)
		inner, _ := decoded(t, w)["error"].(map[string]any)
		if w.Code != http.StatusBadRequest || inner["param"] != field {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	for _, id := range []string{"a%20b", "%2e%2e%2fx", strings.Repeat("x", 129)} {
		refused(t, ask(h, http.MethodPost, "/api/sessions/"+id+"/messages", `{"text":"x"}`), http.StatusBadRequest, "invalid_value")
	}
	if len(chat.said) > 0 {
		t.Errorf("something was said: %v", chat.said)
	}
}

// A command in a chat program costs no row and no model, in either form of answer.
func TestACommandInACompletionIsAnsweredWithoutRowsAndModel(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "fine"})
	named := header(headerSession, "s1")
	whole := h.send(t, bounded(t), `{"messages":[{"role":"user","content":"/status"}]}`, named)
	var body struct {
		Choices  []struct{ Message struct{ Content string } }
		Gatewayd struct{ Command bool }
	}
	if err := json.NewDecoder(whole.Body).Decode(&body); err != nil || len(body.Choices) != 1 || !body.Gatewayd.Command || !strings.Contains(body.Choices[0].Message.Content, "fake-model") {
		t.Errorf("got %+v %v", body, err)
	}
	stream := h.send(t, bounded(t), `{"stream":true,"messages":[{"role":"user","content":"/help"}]}`, named)
	raw, err := io.ReadAll(stream.Body)
	if err != nil || !strings.Contains(string(raw), "/compress") || !strings.HasSuffix(string(raw), "data: [DONE]\n\n") {
		t.Errorf("streamed: %s %v", raw, err)
	}
	wrong := h.send(t, bounded(t), `{"messages":[{"role":"user","content":"/undo"}]}`, named)
	if err := json.NewDecoder(wrong.Body).Decode(&body); err != nil || wrong.StatusCode != http.StatusOK || !strings.Contains(body.Choices[0].Message.Content, "nothing") {
		t.Errorf("what cannot be done: %+v %v", body, err)
	}
	if list, err := h.store.Sessions(t.Context(), sessiondb.ListFilter{}); err != nil || len(list) > 0 || len(h.llm.Requests()) > 0 {
		t.Errorf("there are %v sessions, %d requests, %v", list, len(h.llm.Requests()), err)
	}
	path := h.send(t, bounded(t), `{"messages":[{"role":"user","content":"/etc/passwd is odd"}]}`, named)
	if got := h.rows(t, "s1"); path.StatusCode != http.StatusOK || got != "user:/etc/passwd is odd|assistant:fine|" {
		t.Errorf("a path: %s", got)
	}
}

// A client that names its conversations goes on under its own name after /new, in the new one.
func TestANameOfAClientsOwnLeadsToTheNewConversation(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "1"}, fakellm.Text{Text: "2"})
	named := header(headerSession, "my-bot")
	say := func(text string) string {
		w := h.send(t, bounded(t), fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]}`, text), named)
		if w.StatusCode != http.StatusOK {
			raw, _ := io.ReadAll(w.Body)
			t.Fatalf("%s: %d %s", text, w.StatusCode, raw)
		}
		return w.Header.Get(headerSession)
	}
	if got := say("a"); got != "my-bot" {
		t.Errorf("the first is in %s", got)
	}
	next := say("/new")
	if next == "my-bot" || say("b") != next {
		t.Errorf("it does not go on in %s", next)
	}
	if h.rows(t, "my-bot") != "user:a|assistant:1|" || h.rows(t, next) != "user:b|assistant:2|" {
		t.Errorf("%s; %s", h.rows(t, "my-bot"), h.rows(t, next))
	}
	if say("/resume my-bot") != "my-bot" || say("/title") != "my-bot" {
		t.Error("it does not come back")
	}
}

// A chat program that tells the whole conversation tells commands too. What they did to the stored one is done to the told one.
func TestCommandsInAToldConversationBeginNoBranch(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "1"}, fakellm.Text{Text: "2"}, fakellm.Text{Text: "2 again"}, fakellm.Text{Text: "3"})
	var told []map[string]string
	session := ""
	say := func(text string) string {
		told = append(told, map[string]string{"role": "user", "content": text})
		raw, _ := json.Marshal(map[string]any{"messages": told})
		w := h.send(t, bounded(t), string(raw))
		var body struct {
			Choices []struct{ Message struct{ Content string } }
		}
		if err := json.NewDecoder(w.Body).Decode(&body); err != nil || len(body.Choices) == 0 {
			t.Fatalf("%s: %v", text, err)
		}
		told = append(told, map[string]string{"role": "assistant", "content": body.Choices[0].Message.Content})
		session = w.Header.Get(headerSession)
		return body.Choices[0].Message.Content
	}
	say("a")
	first := session
	say("/status")
	say("b")
	if got := say("/retry"); got != "2 again" {
		t.Errorf("asked again: %q", got)
	}
	say("/stauts")
	say("/undo")
	say("c")
	if session != first || h.rows(t, first) != "user:a|assistant:1|user:c|assistant:3|" {
		t.Errorf("%s after %s: %s", session, first, h.rows(t, session))
	}
}

func TestWhatCommandsLeaveOfAToldConversation(t *testing.T) {
	tell := func(texts ...string) (out []provider.Message) {
		for _, text := range texts {
			role, content, _ := strings.Cut(text, ":")
			out = append(out, provider.Message{Role: map[string]string{"u": "user", "a": "assistant"}[role], Content: content})
		}
		return out
	}
	for _, c := range [][2][]provider.Message{
		{tell("u:1", "a:1", "u:/status", "a:s", "u:2", "a:2"), tell("u:1", "a:1", "u:2", "a:2")},
		{tell("u:1", "a:1", "u:/new", "a:new", "u:2", "a:2"), tell("u:2", "a:2")},
		{tell("u:1", "a:1", "u:2", "a:2", "u:/undo 2", "a:done"), nil},
		{tell("u:1", "a:1", "u:/undo 2", "a:too far"), tell("u:1", "a:1")},
		{tell("u:1", "a:1", "u:/undo x", "a:what?"), tell("u:1", "a:1")},
		{tell("u:1", "a:1", "u:/retry", "a:1b"), tell("u:1", "a:1b")},
		{tell("u:1", "a:1", "u:/queue 2", "a:2"), tell("u:1", "a:1", "u:2", "a:2")},
		{tell("u:/etc/passwd", "a:1"), tell("u:/etc/passwd", "a:1")},
		{tell("a:hello", "u:1", "a:1"), tell("a:hello", "u:1", "a:1")},
		{tell("u:/retry", "a:nothing"), nil},
	} {
		if got := withoutCommands(c[0]); fmt.Sprint(got) != fmt.Sprint(c[1]) {
			t.Errorf("%v leaves %v, want %v", c[0], got, c[1])
		}
	}
}

func TestSessionsAreMadeNamedAndFoundByKey(t *testing.T) {
	h := newHouse(t, nil)
	status, made := h.post(t, http.MethodPost, "/api/sessions", `{"title":"garden"}`)
	session, _ := made["session"].(map[string]any)
	if status != http.StatusCreated || session["title"] != "garden" {
		t.Fatalf("%d %v", status, made)
	}
	id := fmt.Sprint(session["id"])
	if status, body := h.post(t, http.MethodPatch, "/api/sessions/"+id, `{"title":"  roses  and thorns"}`); status != http.StatusOK || fmt.Sprint(body["session"].(map[string]any)["title"]) != "roses and thorns" {
		t.Errorf("%d %v", status, body)
	}
	h.post(t, http.MethodPost, "/api/sessions", `{"id":"other"}`)
	if status, body := h.post(t, http.MethodPatch, "/api/sessions/other", `{"title":"roses and thorns"}`); status != http.StatusConflict {
		t.Errorf("a taken title: %d %v", status, body)
	}
	if status, body := h.post(t, http.MethodPatch, "/api/sessions/nobody", `{"title":"x"}`); status != http.StatusNotFound {
		t.Errorf("nobody: %d %v", status, body)
	}
	const key = "agent:main:telegram:dm::5"
	if _, body := h.post(t, http.MethodGet, "/api/sessions?key="+key, ""); fmt.Sprint(body["sessions"]) != "[]" {
		t.Errorf("before: %v", body)
	}
	first, one := h.post(t, http.MethodPost, "/api/sessions", `{"key":"`+key+`"}`)
	again, two := h.post(t, http.MethodPost, "/api/sessions", `{"key":"`+key+`"}`)
	if first != http.StatusCreated || again != http.StatusOK || fmt.Sprint(one) == "" || one["session"].(map[string]any)["id"] != two["session"].(map[string]any)["id"] {
		t.Errorf("%d %v; %d %v", first, one, again, two)
	}
	if status, body := h.post(t, http.MethodPost, "/api/sessions", `{"key":"agent:main:telegram:dm:../x"}`); status != http.StatusBadRequest {
		t.Errorf("a key that could be a path: %d %v", status, body)
	}
}

// A routing key in the header leads to its conversation; a command alone makes none.
func TestACompletionByRoutingKey(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "1"})
	key := header(headerKey, "agent:main:telegram:dm::5")
	h.send(t, bounded(t), `{"messages":[{"role":"user","content":"/status"}]}`, key)
	if list, _ := h.store.Sessions(t.Context(), sessiondb.ListFilter{}); len(list) > 0 {
		t.Errorf("looking made %v", list)
	}
	w := h.send(t, bounded(t), `{"messages":[{"role":"user","content":"a"}]}`, key)
	session, err := h.store.SessionByKey(t.Context(), "agent:main:telegram:dm::5")
	if err != nil || w.Header.Get(headerSession) != session.ID || h.rows(t, session.ID) != "user:a|assistant:1|" {
		t.Errorf("it is in %s: %v", w.Header.Get(headerSession), err)
	}
	if bad := h.send(t, bounded(t), hello, header(headerKey, "who:knows")); bad.StatusCode != http.StatusBadRequest {
		t.Errorf("no key: %d", bad.StatusCode)
	}
}
