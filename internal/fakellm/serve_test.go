package fakellm

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestOneScriptIsSpokenOnBothWires(t *testing.T) {
	call := ToolCall{Name: "ls", Args: map[string]any{"path": "/"}, Text: "let me look"}
	s := New(t, Text{Text: "hello there", Reasoning: "hm", Usage: Usage{Prompt: 12, Completion: 3, Cached: 5}}, call, Error{Status: 529, Message: "busy"})
	ask := func() (int, string) {
		response, err := http.Post(s.URL()+"/messages", "application/json", strings.NewReader(`{"stream":true,"tools":[{}]}`))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(body)
	}
	_, text := ask()
	for _, want := range []string{
		"event: message_start", `"thinking":"hm"`, `"signature":"signed-by-the-fake"`, `"text":"hello th"`, `"stop_reason":"end_turn"`,
		`"input_tokens":7`, `"cache_read_input_tokens":5`, "event: message_stop",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %s:\n%s", want, text)
		}
	}
	_, text = ask()
	for _, want := range []string{`"name":"ls"`, `"id":"call_fake_1"`, `"partial_json":`, `"stop_reason":"tool_use"`, `"index":1`} {
		if !strings.Contains(text, want) {
			t.Errorf("the call lacks %s:\n%s", want, text)
		}
	}
	if status, text := ask(); status != 529 || !strings.Contains(text, `"type":"overloaded_error"`) {
		t.Errorf("%d %s", status, text)
	}
}

// complaints stands in for a test.
type complaints struct{ texts []string }

func (c *complaints) Cleanup(func()) {}

func (c *complaints) Errorf(format string, _ ...any) { c.texts = append(c.texts, format) }

func TestAFunctionThatPanicsIsATestsFault(t *testing.T) {
	s := Start(Options{Each: func(Request) Response { panic("wrong prompt") }})
	defer s.Close()
	if _, err := http.Post(s.URL()+"/chat/completions", "application/json", strings.NewReader(`{}`)); err == nil {
		t.Error("a request whose function panicked was answered")
	}
	heard := &complaints{}
	if s.Blame(heard); len(heard.texts) != 1 || !strings.Contains(s.Faults()[0], "wrong prompt") {
		t.Errorf("faults: %q, told: %q", s.Faults(), heard.texts)
	}
}

func TestAnotherProcessHoldsTheScript(t *testing.T) {
	ctx, stop := context.WithCancel(bounded(t))
	out, in := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, []string{"-addr", "127.0.0.1:0", "-key", "k"}, in) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	base := strings.TrimSuffix(strings.TrimSpace(line), "/v1")
	script := `[{"error":{"Status":429,"RetryAfter":"1"},"times":2},{"text":{"Text":"hi"},"delay_ms":1},{"tool_call":{"Name":"ls","Args":{"a":1}}},{"hang":{"Seconds":0.01}}]`
	response, err := http.Post(base+controlPath+"script", "application/json", strings.NewReader(script))
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("%v %+v", err, response)
	}
	_ = response.Body.Close()
	var codes []int
	for range 3 {
		request, _ := http.NewRequest(http.MethodPost, base+"/v1/chat/completions", strings.NewReader(`{"messages":[]}`))
		request.Header.Set("Authorization", "Bearer k")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		codes = append(codes, response.StatusCode)
		_ = response.Body.Close()
	}
	if codes[0] != 429 || codes[1] != 429 || codes[2] != 200 {
		t.Errorf("answers %v", codes)
	}
	response, err = http.Get(base + controlPath + "requests")
	if err != nil {
		t.Fatal(err)
	}
	var record struct{ Requests []struct{ Kind, Key string } }
	if err := json.NewDecoder(response.Body).Decode(&record); err != nil || len(record.Requests) != 3 || record.Requests[0].Key != "k" {
		t.Errorf("%+v, %v", record, err)
	}
	_ = response.Body.Close()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := ParseScript([]byte(`[{"dance":{}}]`)); err == nil {
		t.Error("a response of no kind was read")
	}
}

func TestThePromptIsCountedByTheTest(t *testing.T) {
	s := Start(Options{Each: func(Request) Response { return Text{Text: "x"} }, PromptTokens: func(r Request) int64 { return int64(len(r.Body)) }})
	defer s.Close()
	response := post(t, bounded(t), s, `{"messages":[]}`)
	_, _ = io.Copy(io.Discard, response.Body)
	if got := s.Requests()[0].Answered.Usage(); got.Prompt != int64(len(`{"messages":[]}`)) {
		t.Errorf("usage %+v", got)
	}
}
