package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"gatewayd/gateway"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/problem"
	"gatewayd/internal/vigil"
	"gatewayd/sessiondb"
)

const helloStream = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`

// frame is one event of a stream as a client that keeps the standard reads it.
type frame struct {
	name string
	data string
}

// frames reads a whole stream strictly: events end with a blank line, and nothing but the fields of the standard occurs.
func frames(t *testing.T, body io.Reader) (list []frame, comments []string) {
	t.Helper()
	var current frame
	scanner := bufio.NewScanner(body)
	scanner.Buffer(nil, 64<<20)
	for scanner.Scan() {
		line := scanner.Text()
		switch {
		case line == "":
			if current != (frame{}) {
				list = append(list, current)
			}
			current = frame{}
		case strings.HasPrefix(line, ": "):
			comments = append(comments, line[2:])
		case strings.HasPrefix(line, "event: "):
			current.name = line[7:]
		case strings.HasPrefix(line, "data: ") && current.data == "":
			current.data = line[6:]
		default:
			t.Errorf("not a line of an event stream: %q", line)
		}
	}
	if current != (frame{}) {
		t.Errorf("the stream ends inside an event: %+v", current)
	}
	return list, comments
}

// streamed is what a stream said.
type streamed struct {
	text, finish string
	tools        []string
	usage        map[string]any
	last         map[string]any
	failure      map[string]any
	done         bool
}

func read(t *testing.T, list []frame) (s streamed) {
	t.Helper()
	for i, f := range list {
		if f.data == "[DONE]" {
			s.done = i == len(list)-1
			continue
		}
		var chunk map[string]any
		if err := json.Unmarshal([]byte(f.data), &chunk); err != nil {
			t.Fatalf("chunk %q: %v", f.data, err)
		}
		if chunk["object"] != "chat.completion.chunk" || chunk["id"] == "" || chunk["model"] == "" || chunk["choices"] == nil {
			t.Errorf("not a chunk: %s", f.data)
		}
		if usage, ok := chunk["usage"].(map[string]any); ok {
			s.usage = usage
		}
		if failure, ok := chunk["error"].(map[string]any); ok {
			s.failure = failure
		}
		choices := chunk["choices"].([]any)
		if len(choices) == 0 {
			continue
		}
		choice := choices[0].(map[string]any)
		delta := choice["delta"].(map[string]any)
		if i == 0 && delta["role"] != "assistant" {
			t.Errorf("the first chunk has no role: %s", f.data)
		}
		if f.name != "" {
			if f.name != progressEvent || len(delta) != 0 {
				t.Errorf("event %s: %s", f.name, f.data)
			}
			s.tools = append(s.tools, chunk["tool"].(string)+" "+chunk["status"].(string)+" "+chunk["label"].(string)+" "+chunk["toolCallId"].(string))
		}
		if text, ok := delta["content"].(string); ok {
			s.text += text
		}
		if finish, ok := choice["finish_reason"].(string); ok {
			s.finish, s.last = finish, chunk
		}
	}
	return s
}

func streamOf(t *testing.T, h http.Handler, body string) (streamed, []string, *httptest.ResponseRecorder) {
	t.Helper()
	w := ask(h, "POST", "/v1/chat/completions", body)
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") || !w.Flushed {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	list, comments := frames(t, strings.NewReader(w.Body.String()))
	return read(t, list), comments, w
}

func TestAStreamIsWhole(t *testing.T) {
	h, chat := plain(nil)
	chat.say = func(_ context.Context, _ gateway.Say, sink func(gateway.Event)) (gateway.Result, error) {
		for _, e := range []gateway.Event{
			{Kind: gateway.EventReasoning, Text: "a silent thought"},
			{Kind: gateway.EventDelta, Text: "Let me look."},
			{Kind: gateway.EventNotice, Text: "two\nlines"},
			{Kind: gateway.EventToolStarted, Tool: "terminal", CallID: "c1", Text: `{"command":"ls  -l\n"}`},
			{Kind: gateway.EventToolFinished, Tool: "terminal", CallID: "c1", Text: "total 0", Err: true},
		} {
			sink(e)
		}
		return answered("The end.", sink), nil
	}
	got, comments, w := streamOf(t, h, helloStream)
	if got.text != "Let me look.\n\nThe end." || got.finish != "stop" || !got.done || got.failure != nil || got.usage["prompt_tokens"] != 10.0 {
		t.Errorf("%+v", got)
	}
	if strings.Join(got.tools, "|") != "terminal running ls -l c1|terminal failed ls -l c1" {
		t.Errorf("tools: %q", got.tools)
	}
	if len(comments) != 1 || comments[0] != "two lines" || strings.Contains(w.Body.String(), "silent thought") {
		t.Errorf("comments %q", comments)
	}
	if receipt := got.last["gatewayd"].(map[string]any); receipt["turn_id"] != "turn_1" || receipt["completed"] != true {
		t.Errorf("receipt: %v", receipt)
	}
	h, _ = plain(func(o *Options) { o.ShowReasoning = true; o.Chat = chat })
	if _, _, w := streamOf(t, h, helloStream); !strings.Contains(w.Body.String(), `"reasoning_content":"a silent thought"`) {
		t.Error("no reasoning")
	}
}

func TestUsageOfItsOwnWhenAskedFor(t *testing.T) {
	h, _ := plain(nil)
	got, _, _ := streamOf(t, h, strings.Replace(helloStream, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1))
	if got.usage["total_tokens"] != 15.0 || got.last["usage"] != nil || !got.done {
		t.Errorf("%+v", got)
	}
}

func TestTheAnswerIsPartOfTheResult(t *testing.T) {
	long := strings.Repeat("x\n", 1<<20)
	for name, c := range map[string]struct{ deltas, text, want string }{
		"nothing was streamed":    {"", "the answer", "the answer"},
		"all was streamed":        {"the answer", "the answer", "the answer"},
		"a note follows":          {"Look. half", "half\n\n[It broke.]", "Look. half\n\n[It broke.]"},
		"something else streamed": {"draft", "final", "draft\n\nfinal"},
		"megabytes":               {long, long, long},
	} {
		h, chat := plain(nil)
		chat.say = func(_ context.Context, _ gateway.Say, sink func(gateway.Event)) (gateway.Result, error) {
			if c.deltas != "" {
				sink(gateway.Event{Kind: gateway.EventDelta, Text: c.deltas})
			}
			return gateway.Result{Text: c.text, Completed: true, FinishReason: "stop"}, nil
		}
		if got, _, _ := streamOf(t, h, helloStream); got.text != c.want {
			t.Errorf("%s: %.80q", name, got.text)
		}
	}
}

func TestARefusalBeforeTheFirstByteHasItsStatus(t *testing.T) {
	h, chat := plain(nil)
	chat.say = func(context.Context, gateway.Say, func(gateway.Event)) (gateway.Result, error) {
		return gateway.Result{}, &problem.Error{Kind: problem.Busy, Thing: "session s", What: "has 32 messages waiting already"}
	}
	refused(t, ask(h, "POST", "/v1/chat/completions", helloStream), http.StatusTooManyRequests, "busy")
	chat.say = func(context.Context, gateway.Say, func(gateway.Event)) (gateway.Result, error) {
		return gateway.Result{Failed: true, FinishReason: "error", Text: "[no]"}, nil
	}
	refused(t, ask(h, "POST", "/v1/chat/completions", helloStream), http.StatusBadGateway, "agent_incomplete")
}

func TestAFailureInTheMiddleIsSaid(t *testing.T) {
	fail := func(result gateway.Result, err error, events ...gateway.Event) streamed {
		h, chat := plain(nil)
		chat.say = func(_ context.Context, _ gateway.Say, sink func(gateway.Event)) (gateway.Result, error) {
			for _, e := range events {
				sink(e)
			}
			return result, err
		}
		got, _, _ := streamOf(t, h, helloStream)
		return got
	}
	tool := gateway.Event{Kind: gateway.EventToolStarted, Tool: "x"}
	got := fail(gateway.Result{Failed: true, FinishReason: "error", Text: "[no]"}, nil, tool)
	if got.finish != "error" || got.failure["code"] != "agent_incomplete" || !got.done {
		t.Errorf("failed without words: %+v", got)
	}
	got = fail(gateway.Result{}, errors.New("secret"), tool)
	if got.finish != "error" || got.failure["code"] != "internal_error" || strings.Contains(got.failure["message"].(string), "secret") {
		t.Errorf("a bare error: %+v", got)
	}
	got = fail(gateway.Result{Failed: true, FinishReason: "error", Text: "half\n\n[It broke.]"}, nil, gateway.Event{Kind: gateway.EventDelta, Text: "half"})
	if got.finish != "length" || got.failure != nil || got.text != "half\n\n[It broke.]" || got.last["gatewayd"].(map[string]any)["failed"] != true {
		t.Errorf("broke off after words: %+v", got)
	}
	got = fail(gateway.Result{Failed: true, FinishReason: "not_stored", Text: "half"}, nil, gateway.Event{Kind: gateway.EventDelta, Text: "half"})
	if got.finish != "error" || got.failure["code"] != "persistence_failed" {
		t.Errorf("not stored: %+v", got)
	}
}

func TestAMissedPartIsNoEnd(t *testing.T) {
	h, chat := plain(nil)
	chat.say = func(_ context.Context, _ gateway.Say, sink func(gateway.Event)) (gateway.Result, error) {
		sink(gateway.Event{Kind: gateway.EventDelta, Text: "half"})
		return gateway.Result{Completed: true, Text: "half and the rest", SinkDropped: true}, nil
	}
	server := httptest.NewServer(h)
	defer server.Close()
	r, _ := http.NewRequestWithContext(bounded(t), "POST", server.URL+"/v1/chat/completions", strings.NewReader(helloStream))
	r.Header.Set("Authorization", "Bearer "+testKey)
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil || strings.Contains(string(body), "[DONE]") || strings.Contains(string(body), `"finish_reason":"stop"`) {
		t.Errorf("an end that could be taken for one: %v %s", err, body)
	}
}

func TestSilenceIsFilledWithComments(t *testing.T) {
	release := make(chan struct{})
	h, chat := plain(func(o *Options) { o.KeepAlive, o.OpenAfter = time.Millisecond, time.Hour })
	chat.say = func(_ context.Context, _ gateway.Say, sink func(gateway.Event)) (gateway.Result, error) {
		<-release
		return answered("late", sink), nil
	}
	server := httptest.NewServer(h)
	defer server.Close()
	r, _ := http.NewRequestWithContext(bounded(t), "POST", server.URL+"/v1/chat/completions", strings.NewReader(helloStream))
	r.Header.Set("Authorization", "Bearer "+testKey)
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	reader := bufio.NewReader(response.Body)
	for n := 0; n < 3; {
		line, err := reader.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == ": keep-alive\n" {
			n++
		}
	}
	close(release)
	list, _ := frames(t, reader)
	if got := read(t, append([]frame{{data: `{"object":"chat.completion.chunk","choices":[{"delta":{"role":"assistant"}}]}`}}, list...)); got.text != "late" || !got.done {
		t.Errorf("%+v", got)
	}
}

func TestHeadersComeBeforeTheFirstWord(t *testing.T) {
	release := make(chan struct{})
	h, chat := plain(func(o *Options) { o.OpenAfter, o.KeepAlive = time.Millisecond, time.Hour })
	chat.say = func(_ context.Context, _ gateway.Say, sink func(gateway.Event)) (gateway.Result, error) {
		<-release
		return gateway.Result{}, &problem.Error{Kind: problem.Unavailable, Thing: "gatewayd", What: "is stopping"}
	}
	server := httptest.NewServer(h)
	defer server.Close()
	r, _ := http.NewRequestWithContext(bounded(t), "POST", server.URL+"/v1/chat/completions", strings.NewReader(helloStream))
	r.Header.Set("Authorization", "Bearer "+testKey)
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	close(release)
	list, _ := frames(t, response.Body)
	if got := read(t, list); response.StatusCode != 200 || got.finish != "error" || got.failure["code"] != "unavailable" || !got.done {
		t.Errorf("%+v", got)
	}
}

// A client that leaves ends its turn: the model server sees the connection go, and the rows say what happened.
func TestAClientThatLeavesEndsItsTurn(t *testing.T) {
	for _, body := range []string{helloStream, hello} {
		gate := make(chan struct{}, 1)
		gate <- struct{}{}
		h := newHouse(t, func(o *Options) { o.KeepAlive = time.Hour }, fakellm.Text{Text: "eight by never", Gate: gate})
		ctx, leave := context.WithCancel(bounded(t))
		r, _ := http.NewRequestWithContext(ctx, "POST", h.URL+"/v1/chat/completions", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+testKey)
		r.Header.Set(headerSession, "leaving")
		answered, first := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(answered)
			if response, err := h.Client().Do(r); err == nil {
				scanner := bufio.NewScanner(response.Body)
				for scanner.Scan() {
					if strings.Contains(scanner.Text(), "eight by") {
						close(first)
					}
				}
				_ = response.Body.Close()
			}
		}()
		requests, err := h.llm.Wait(bounded(t), 1)
		if err != nil {
			t.Fatal(err)
		}
		if body == helloStream { // leaving before the first word would show in a failing write
			select {
			case <-first:
			case <-bounded(t).Done():
				t.Fatal("nothing was streamed")
			}
		}
		leave()
		select {
		case <-requests[0].Gone:
		case <-bounded(t).Done():
			t.Fatal("the model goes on for nobody")
		}
		<-answered
		h.Close() // waits for the handler, which waits for the turn
		rows, err := h.store.Messages(t.Context(), "leaving", sessiondb.MessageFilter{})
		if err != nil || len(rows) != 2 || rows[0].Content != "hello" || rows[1].FinishReason != "interrupted" {
			t.Errorf("rows %+v, %v", rows, err)
		}
	}
}

// A client that stands still is found out by the deadline of a write, and its turn ends as if it had left.
func TestAClientThatDoesNotReadEndsItsTurn(t *testing.T) {
	ended := make(chan error, 1)
	h, chat := plain(func(o *Options) { o.Patience = 50 * time.Millisecond })
	chat.say = func(ctx context.Context, _ gateway.Say, sink func(gateway.Event)) (gateway.Result, error) {
		piece := strings.Repeat("x", 1<<20)
		for ctx.Err() == nil {
			sink(gateway.Event{Kind: gateway.EventDelta, Text: piece})
		}
		ended <- context.Cause(ctx)
		return gateway.Result{Interrupted: true, ExitReason: "interrupted(client_gone)"}, nil
	}
	server := httptest.NewServer(h)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+testKey+"\r\nContent-Length: "+
		strconv.Itoa(len(helloStream))+"\r\n\r\n"+helloStream)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case cause := <-ended:
		if !errors.Is(cause, gateway.ClientGone) && !errors.Is(cause, context.Canceled) {
			t.Errorf("cause: %v", cause)
		}
	case <-bounded(t).Done():
		t.Fatal("the turn goes on for a client that does not read")
	}
}

// Whatever serves the handler, a write that fails is a client that is gone.
func TestAWriteThatFailsEndsTheTurn(t *testing.T) {
	h, chat := plain(nil)
	var cause error
	chat.say = func(ctx context.Context, _ gateway.Say, sink func(gateway.Event)) (gateway.Result, error) {
		sink(gateway.Event{Kind: gateway.EventDelta, Text: "words"})
		select {
		case <-ctx.Done():
		case <-bounded(t).Done():
		}
		cause = context.Cause(ctx)
		return gateway.Result{Interrupted: true}, nil
	}
	defer func() {
		if p := recover(); p != http.ErrAbortHandler || !errors.Is(cause, gateway.ClientGone) {
			t.Errorf("ended with %v, cause %v", p, cause)
		}
	}()
	r := httptest.NewRequest("POST", "http://localhost/v1/chat/completions", strings.NewReader(helloStream))
	r.Header.Set("Authorization", "Bearer "+testKey)
	h.ServeHTTP(deaf{httptest.NewRecorder()}, r)
}

// deaf takes no byte.
type deaf struct{ *httptest.ResponseRecorder }

func (deaf) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// The deadline of a stream's writes must not reach the next request of its connection.
func TestAConnectionServesAgainAfterAStream(t *testing.T) {
	h, chat := plain(func(o *Options) { o.Patience = 20 * time.Millisecond })
	server := httptest.NewServer(h)
	defer server.Close()
	post := func(body string) (*http.Response, error) {
		r, _ := http.NewRequestWithContext(bounded(t), "POST", server.URL+"/v1/chat/completions", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+testKey)
		return server.Client().Do(r)
	}
	first, err := post(helloStream)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, first.Body)
	_ = first.Body.Close()
	chat.say = func(_ context.Context, _ gateway.Say, sink func(gateway.Event)) (gateway.Result, error) {
		vigil.LetPass(40*time.Millisecond, "the first stream's deadline is over then")
		return answered("late", sink), nil
	}
	second, err := post(hello)
	if err != nil {
		t.Fatalf("the second answer on this connection: %v", err)
	}
	defer second.Body.Close()
	if body, err := io.ReadAll(second.Body); err != nil || !strings.Contains(string(body), "late") {
		t.Errorf("%s, %v", body, err)
	}
}

// FuzzStream holds that no text can break a stream's framing.
func FuzzStream(f *testing.F) {
	f.Add("plain", "note")
	f.Add("a\r\nb\rc\n\ndata: [DONE]\n\n", "x\n\ndata: y\n\nevent: z")
	f.Add("\u2028\x00\ufeff", "\r\r")
	f.Fuzz(func(t *testing.T, text, notice string) {
		h, chat := plain(nil)
		chat.say = func(_ context.Context, _ gateway.Say, sink func(gateway.Event)) (gateway.Result, error) {
			sink(gateway.Event{Kind: gateway.EventNotice, Text: notice})
			sink(gateway.Event{Kind: gateway.EventToolStarted, Tool: text, CallID: notice, Text: text})
			sink(gateway.Event{Kind: gateway.EventDelta, Text: text})
			return gateway.Result{Text: text, Completed: true, FinishReason: "stop"}, nil
		}
		w := ask(h, "POST", "/v1/chat/completions", helloStream)
		list, comments := frames(t, w.Body)
		got := read(t, list)
		if got.text != strings.ToValidUTF8(text, "\ufffd") && got.text != string([]rune(text)) || !got.done || len(comments) != 1 || len(got.tools) != 1 {
			t.Errorf("%q came as %q with %d comments", text, got.text, len(comments))
		}
	})
}
