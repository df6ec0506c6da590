package fakellm

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func post(t *testing.T, ctx context.Context, s *Server, body string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestTextStreamsInPiecesWithUsageAndDone(t *testing.T) {
	s := New(t, Text{Text: "twelve chars", ChunkChars: 6, Usage: Usage{Prompt: 7, Completion: 3}})
	body, err := io.ReadAll(post(t, bounded(t), s, `{"stream":true,"tools":[{}]}`).Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"content":"twelve"`, `"content":" chars"`, `"finish_reason":"stop"`, `"prompt_tokens":7`, "data: [DONE]"} {
		if !strings.Contains(string(body), want) {
			t.Errorf("stream lacks %s:\n%s", want, body)
		}
	}
	if requests := s.Main(); len(requests) != 1 || requests[0].Answered.Usage().Prompt != 7 || requests[0].Answered.Chunks() != 4 {
		t.Errorf("record: %+v", requests)
	}
}

func TestTheClientLeavingIsAnEvent(t *testing.T) {
	gate := make(chan struct{})
	s := New(t, Text{Text: "never all of it", Gate: gate})
	ctx, leave := context.WithCancel(bounded(t))
	done := make(chan struct{})
	go func() { defer close(done); gate <- struct{}{} }()
	response := post(t, ctx, s, `{"stream":true}`)
	<-done
	requests, err := s.Wait(bounded(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	leave()
	select {
	case <-requests[0].Gone:
	case <-bounded(t).Done():
		t.Fatal("the server did not notice that the client left")
	}
	if _, err := io.ReadAll(response.Body); err == nil {
		t.Error("the stream ended as if it were whole")
	}
}

func TestADropBreaksTheStream(t *testing.T) {
	s := New(t, DropMidStream{Text: "one two three four", After: 2}, Hang{Release: closed()})
	body, err := io.ReadAll(post(t, bounded(t), s, `{"stream":true}`).Body)
	if err == nil || strings.Count(string(body), "data:") != 2 {
		t.Errorf("got %q, %v; want two chunks and an error", body, err)
	}
	if _, err := http.Post(s.URL()+"/chat/completions", "application/json", strings.NewReader(`{}`)); err == nil {
		t.Error("a hang that is released must drop the connection")
	}
}

func TestTheRecordSaysWhenAndWithWhat(t *testing.T) {
	s := New(t, Text{Text: "one"}, Func(func(Request) Response { return Error{Status: 429} }))
	for range 2 {
		_ = post(t, bounded(t), s, `{}`).Body.Close()
	}
	got := s.Requests()
	if got[0].Answered.Kind() != "Text" || got[1].Answered.Kind() != "Error" || got[0].At.IsZero() || got[1].At.Before(got[0].At) {
		t.Errorf("%+v", got)
	}
}

func TestAnEmptyScriptNamesItself(t *testing.T) {
	s := New(t)
	response := post(t, bounded(t), s, `{}`)
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != 400 || !strings.Contains(string(body), "script is used up") {
		t.Errorf("%d %s", response.StatusCode, body)
	}
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
