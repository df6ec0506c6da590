package provider

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"gatewayd/internal/fakellm"
)

// A window that nobody configured is asked of the server, at whichever address it answers such questions; what a model was trained
// for is no answer.
func TestAWindowIsAskedOfTheServer(t *testing.T) {
	for name, c := range map[string]struct {
		answers map[string]string
		want    string
	}{
		"a list":             {map[string]string{"/v1/models": `{"data":[{"id":"other","max_model_len":1},{"id":"m","max_model_len":32768}]}`}, "32768 listed by the server"},
		"Ollama, loaded":     {map[string]string{"/v1/models": `{"data":[{"id":"m"}]}`, "/api/ps": `{"models":[{"name":"m","context_length":4096}]}`}, "4096 asked of the server"},
		"Ollama, set":        {map[string]string{"/api/show": `{"parameters":"stop x\nnum_ctx    65536","model_info":{"llama.context_length":131072}}`}, "65536 asked of the server"},
		"Ollama, not set":    {map[string]string{"/api/show": `{"model_info":{"llama.context_length":131072}}`}, "0 "},
		"llama.cpp":          {map[string]string{"/props": `{"default_generation_settings":{"n_ctx":8192}}`}, "8192 asked of the server"},
		"nobody says":        {map[string]string{"/v1/models": `{"data":[{"id":"m"}]}`}, "0 "},
		"answers of no kind": {map[string]string{"/v1/models": `[]`, "/api/ps": `"x"`, "/api/show": `{"parameters":7}`, "/props": `{"default_generation_settings":[]}`}, "0 "},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if text, ok := c.answers[r.URL.Path]; ok {
				_, _ = w.Write([]byte(text))
				return
			}
			http.NotFound(w, r)
		}))
		m := Chain(New(Options{BaseURL: server.URL + "/v1", Name: "m"}), Offline())
		m.(interface{ AskWindow(context.Context) }).AskWindow(t.Context())
		if d := m.Describe(); fmt.Sprint(d.ContextLength, " ", d.WindowFrom) != c.want {
			t.Errorf("%s: %d from %q, want %s", name, d.ContextLength, d.WindowFrom, c.want)
		}
		server.Close()
	}
}

// A window that the settings name is nobody's to ask.
func TestAConfiguredWindowIsNotAsked(t *testing.T) {
	llm := fakellm.New(t)
	m := New(Options{BaseURL: llm.URL(), Name: fakellm.Model, ContextLength: 1000})
	m.(interface{ AskWindow(context.Context) }).AskWindow(t.Context())
	if d := m.Describe(); d.ContextLength != 1000 {
		t.Errorf("%d", d.ContextLength)
	}
}
