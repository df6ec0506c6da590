package provider

import (
	"context"
	"encoding/json"
)

// Message is one row as it goes to the model. Raw, when set, is sent exactly as it is instead of the other fields, so that a
// resumed conversation repeats the bytes of the first one and keeps the server's prefix cache.
type Message struct {
	Role       string // system, user, assistant, tool
	Content    string
	Images     []Image // of a user; they go in front of Content
	ToolCalls  []ToolCall
	ToolCallID string
	Name       string
	Thinking   json.RawMessage // what Response.Thinking was; only the wire that gave it sends it
	Reasoning  string          // of an assistant; only a server that asks for it gets it
	Raw        json.RawMessage
}

// ToolCall is a model's wish to run a tool. Arguments is the text the server sent, which may be anything a model can write.
type ToolCall struct{ ID, Name, Arguments string }

// Complete reports whether Arguments is one whole JSON object, the only form that may be executed. An object closes itself, so
// arguments that were cut off are never complete.
func (c ToolCall) Complete() bool {
	var object map[string]json.RawMessage
	return json.Unmarshal([]byte(c.Arguments), &object) == nil && object != nil
}

// ToolSpec describes a tool to the model. Parameters is a JSON schema; its bytes go out as they are.
type ToolSpec struct {
	Name, Description string
	Parameters        json.RawMessage
}

// Request is one model call. System, when set, goes before the messages. The order of Tools is the caller's and is kept. MaxTokens
// bounds the answer (0: the server's own bound), Temperature nil is the server's own, Effort is how much a reasoning model shall think
// (minimal, low, medium, high; empty: Options.Effort, and then the server's own). A server that refuses one of the three is asked without
// it from then on.
type Request struct {
	Messages    []Message
	Tools       []ToolSpec
	System      string
	MaxTokens   int
	Temperature *float64
	TopP        *float64
	Stop        []string
	Seed        *int64
	Effort      string
	Caller      Caller
}

// Wishes are what a client may ask of the answers to its message. The zero value leaves all to the configuration. A server that refuses
// one of them is asked without it.
type Wishes struct {
	MaxTokens   int      `json:"max_tokens,omitempty"` // of one answer; 0: the configured bound
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	Stop        []string `json:"stop,omitempty"`
	Seed        *int64   `json:"seed,omitempty"`
}

// Any reports that something is asked for.
func (w Wishes) Any() bool {
	return w.MaxTokens > 0 || w.Temperature != nil || w.TopP != nil || len(w.Stop) > 0 || w.Seed != nil
}

// With gives the request with wishes.
func (r Request) With(w Wishes) Request {
	r.MaxTokens, r.Temperature, r.TopP, r.Stop, r.Seed = w.MaxTokens, w.Temperature, w.TopP, w.Stop, w.Seed
	return r
}

// CallerClass is on whose behalf a call is made. The gate serves the classes in turn.
type CallerClass string

// The classes. An empty one counts as a chat.
const (
	CallerChat   CallerClass = "chat"
	CallerWorker CallerClass = "worker"
	CallerAux    CallerClass = "aux" // titles, summaries: what nobody waits for in front of a screen
)

// Caller says who asks, so that a gate can be fair: between classes, and between the sessions of a class.
type Caller struct {
	Class   CallerClass `json:"class"`
	Session string      `json:"session,omitempty"`
}

// Delta is one piece of an answer while it arrives. ToolName announces a call whose arguments are still coming. Notice is a line
// for a person ("rate limited, trying again in 90 s"). A Delta with nothing in it is a sign of life during a long wait.
type Delta struct {
	Text, Reasoning string
	ToolName        string
	Notice          string
}

// Usage counts tokens as the server reported them. Cached and CacheWrite are parts of Prompt, Reasoning is a part of Completion.
type Usage struct{ Prompt, Completion, Cached, CacheWrite, Reasoning int64 }

// Response is a complete answer. FinishReason is one of stop, length, tool_calls, content_filter, or a word of the server's own. With
// length, the last tool call may be cut off; ToolCall.Complete tells. Usage covers also the attempts before it whose server counted
// them. Thinking is signed reasoning that a server wants back, unchanged, together with the tool calls of the answer it belongs to:
// whoever stores it puts it into Message.Thinking; a server that does not get it back answers without thinking, or not at all.
type Response struct {
	Text, Reasoning string
	Thinking        json.RawMessage
	ToolCalls       []ToolCall
	FinishReason    string
	Usage           Usage
	Model           string
	Provider        string // who answered: the Description.Provider of that model
	Window          int    // of a fallback that answered, in tokens; 0: the first model did, or nobody said
}

// Model answers requests. It is safe for concurrent use. Complete calls the sink one call at a time, never after it returned, and
// every error it returns is an *Error.
type Model interface {
	Complete(ctx context.Context, request Request, sink func(Delta)) (Response, error)
	Describe() Description
}

// Resetter is a Model that can forget what it holds against its server: /new and a switch of models close the breaker.
type Resetter interface{ Reset() }

// Reset lets a model try its server again at once, where it knows how to.
func Reset(model Model) {
	if r, ok := model.(Resetter); ok {
		r.Reset()
	}
}

// Counter is a Model that counts what it did.
type Counter interface{ Stats() []Stats }

// StatsOf gives what a model counted, one entry for each server that it may ask; nil for a model that does not count.
func StatsOf(model Model) []Stats {
	if c, ok := model.(Counter); ok {
		return c.Stats()
	}
	return nil
}

// Description says which model this is and how it was decided. BaseURL carries no credentials. ContextLength is in tokens, 0
// when nobody said; WindowFrom says who did: configured, listed by the server, learned from its refusal. Timeouts is for people: each bound, and
// where it comes from.
type Description struct {
	Name, Provider, BaseURL string
	API                     string // openai or anthropic
	ContextLength           int
	WindowFrom              string
	Origin                  string
	Timeouts                string
	Fallbacks               []string // what answers when this one does not, in order
	Offline                 bool
}
