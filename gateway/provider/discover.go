package provider

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// discoverBound is how long the search for a local server may take in all; a start must not wait for a port that swallows packets.
const discoverBound = 150 * time.Millisecond

// usual is where the known local servers listen, in the order in which they are preferred.
var usual = []struct{ Name, Addr string }{
	{"Ollama", "127.0.0.1:11434"},
	{"llama.cpp", "127.0.0.1:8080"},
	{"LM Studio", "127.0.0.1:1234"},
	{"vLLM", "127.0.0.1:8000"},
}

// Discover decides which model answers: the configured one, else a local server on its usual port, else the offline model. how says
// in one line what was decided and why. It takes at most 150 ms and asks nobody when a base URL is configured.
func Discover(ctx context.Context, opts Options) (model Model, how string) {
	if strings.TrimSpace(opts.BaseURL) != "" {
		opts.Origin = "configured"
		configured := New(opts)
		d := configured.Describe()
		name := d.Name
		if name == "" {
			name = "the first model it lists"
		}
		return configured, fmt.Sprintf("configured: %s at %s", name, orText(d.BaseURL, "an address that cannot be used"))
	}
	where := make([]place, len(usual))
	for i, server := range usual {
		where[i] = place{server.Name, "http://" + server.Addr + "/v1"}
	}
	return discover(ctx, opts, where)
}

type place struct{ name, url string }

// discover asks all places at once and takes the first in their order that listed a model, the configured name before others.
func discover(ctx context.Context, opts Options, where []place) (Model, string) {
	ctx, cancel := context.WithTimeout(ctx, discoverBound)
	defer cancel()
	found := make([][]listed, len(where))
	// Local servers take no key, and a stranger on a usual port must not be shown one.
	transport := &http.Transport{DisableKeepAlives: true}
	var asking sync.WaitGroup
	for i, server := range where {
		asking.Go(func() {
			probe := New(Options{BaseURL: server.url, Transport: transport}).(*client)
			models, err := probe.list(ctx)
			if err == nil {
				found[i] = models
			}
		})
	}
	asking.Wait()
	for i, server := range where {
		if chosen, ok := choose(found[i], opts.Name); ok {
			return local(opts, server, chosen, len(found[i]))
		}
	}
	how := "offline: model.base_url is not set and no local server answered on " + addresses(where)
	if opts.Name != "" {
		how = fmt.Sprintf("offline: model.base_url is not set and no local server on %s has the model %q", addresses(where), opts.Name)
	}
	return offline{origin: how}, how
}

func local(opts Options, server place, chosen listed, of int) (Model, string) {
	reason := "its first of " + fmt.Sprint(of)
	if of == 1 {
		reason = "its only one"
	}
	if opts.Name != "" {
		reason = "the configured name"
	}
	how := fmt.Sprintf("found: %s at %s, model %s (%s)", server.name, server.url, chosen.ID, reason)
	opts.BaseURL, opts.Name, opts.Key = server.url, chosen.ID, ""
	opts.Provider, opts.Origin = server.name, how
	if opts.ContextLength == 0 {
		opts.ContextLength = chosen.Window
	}
	return New(opts), how
}

// choose picks the wanted model, or the first that is no embedding model.
func choose(models []listed, want string) (listed, bool) {
	for _, model := range models {
		if model.is(want) || want == "" && !strings.Contains(strings.ToLower(model.ID), "embed") {
			return model, true
		}
	}
	return listed{}, false
}

func addresses(where []place) string {
	list := make([]string, len(where))
	for i, server := range where {
		list[i] = strings.TrimSuffix(strings.TrimPrefix(server.url, "http://"), "/v1") + " (" + server.name + ")"
	}
	return strings.Join(list, ", ")
}

func orText(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}
