package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// windowAsked is a window that a local server told at its own address for such questions.
const windowAsked = "asked of the server"

// AskWindow asks the server how many tokens fit into a request to its model, where neither the settings nor an earlier answer say. What it
// learns is in Describe from then on; a server that does not say leaves it as it was. It blocks as long as ctx allows.
func (c *client) AskWindow(ctx context.Context) {
	if c.baseErr != nil || c.Describe().ContextLength > 0 {
		return
	}
	name, failed := c.modelName(ctx)
	if failed != nil || c.Describe().ContextLength > 0 {
		return
	}
	tokens, from := c.listedWindow(ctx, name), windowListed
	if tokens == 0 && isLocal(c.base.Hostname()) {
		tokens, from = c.localWindow(ctx, name), windowAsked
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.window.set(tokens, from)
}

// AskWindow asks the first server, whose window is the chain's.
func (c *chain) AskWindow(ctx context.Context) {
	if len(c.links) == 0 {
		return
	}
	if first, ok := c.links[0].model.(interface{ AskWindow(context.Context) }); ok {
		first.AskWindow(ctx)
	}
}

func (c *client) listedWindow(ctx context.Context, name string) int {
	models, err := c.list(ctx)
	if err != nil {
		return 0
	}
	for _, m := range models {
		if m.is(name) {
			return m.Window
		}
	}
	return 0
}

var numCtx = regexp.MustCompile(`(?m)^num_ctx\s+(\d+)`)

// localWindow asks where Ollama and llama.cpp answer. What a model was trained for is no answer: a server started with less cuts prompts
// without a word.
func (c *client) localWindow(ctx context.Context, name string) int {
	for _, raw := range looseList(c.tell(ctx, "api/ps", nil)["models"]) {
		entry := looseObject(raw)
		if n, ok := looseInt(entry["context_length"]); ok && n > 0 && (listed{ID: looseText(entry["name"])}.is(name) || listed{ID: looseText(entry["model"])}.is(name)) {
			return int(n)
		}
	}
	question, _ := json.Marshal(map[string]string{"model": name}) // strings always marshal
	if match := numCtx.FindStringSubmatch(looseText(c.tell(ctx, "api/show", question)["parameters"])); match != nil {
		if n, ok := looseInt(json.RawMessage(match[1])); ok {
			return int(n)
		}
	}
	if n, ok := looseInt(looseObject(c.tell(ctx, "props", nil)["default_generation_settings"])["n_ctx"]); ok && n > 0 {
		return int(n)
	}
	return 0
}

// tell asks one of the server's addresses beside the protocol's; nil when it does not answer with an object.
func (c *client) tell(ctx context.Context, endpoint string, body []byte) map[string]json.RawMessage {
	method, content := http.MethodGet, io.Reader(nil)
	if body != nil {
		method, content = http.MethodPost, bytes.NewReader(body)
	}
	at := url.URL{Scheme: c.base.Scheme, Host: c.base.Host, Path: path.Join("/", strings.TrimSuffix(strings.TrimRight(c.base.Path, "/"), "/v1"), endpoint)}
	request, err := http.NewRequestWithContext(ctx, method, at.String(), content)
	if err != nil {
		return nil
	}
	response, err := c.http.Load().Do(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err != nil || response.StatusCode != http.StatusOK {
		return nil
	}
	return looseObject(answer)
}
