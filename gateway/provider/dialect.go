package provider

import (
	"net/http"
	"strings"
)

// APIs that a server may speak.
const (
	APIOpenAI    = "openai"
	APIAnthropic = "anthropic"
)

// dialect is one wire: how a request is written and how a chunk of the answer is read. Everything else, from the clock to the breaker, is the
// same for all.
type dialect interface {
	endpoint() string
	sign(header http.Header, key string)
	encode(name string, request Request, m manner) ([]byte, error)
	// apply takes one event into the answer; see assembly.
	apply(a *assembly, e event) (Delta, bool, error)
}

// dialectOf picks the wire: what is configured, else what the host is known for.
func dialectOf(opts Options, host string) dialect {
	api := opts.API
	if api == "" || api == "auto" {
		api = APIOpenAI
		if host == "api.anthropic.com" {
			api = APIAnthropic
		}
	}
	if api == APIAnthropic {
		return messagesAPI{ttl: opts.CacheTTL}
	}
	return chatAPI{progress: isLocal(host), modern: host == "api.openai.com"}
}

// chatAPI is the chat completions protocol that nearly every server speaks.
type chatAPI struct {
	progress bool // ask for a sign of life while the prompt is read; llama.cpp gives it
	modern   bool // the server is known to want max_completion_tokens
}

func (chatAPI) endpoint() string { return "chat/completions" }

func (chatAPI) sign(header http.Header, key string) {
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
}

func (chatAPI) apply(a *assembly, e event) (Delta, bool, error) {
	if strings.TrimSpace(string(e.Data)) == doneMark {
		a.done = true
		return Delta{Text: a.say(a.tags.rest())}, false, nil
	}
	return a.apply(e.Data)
}
