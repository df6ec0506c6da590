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
	ToolCalls  []ToolCall
	ToolCallID string
	Name       string
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

// Request is one model call. System, when set, goes before the messages. The order of Tools is the caller's and is kept.
type Request struct {
	Messages []Message
	Tools    []ToolSpec
	System   string
}

// Delta is one piece of an answer while it arrives. ToolName announces a call whose arguments are still coming. Notice is a line
// for a person ("rate limited, trying again in 90 s"). A Delta with nothing in it is a sign of life during a long wait.
type Delta struct {
	Text, Reasoning string
	ToolName        string
	Notice          string
}

// Usage counts tokens as the server reported them. Cached is a part of Prompt, Reasoning a part of Completion.
type Usage struct{ Prompt, Completion, Cached, Reasoning int64 }

// Response is a complete answer. FinishReason is the server's word (stop, length, tool_calls, content_filter). With length, the
// last tool call may be cut off; ToolCall.Complete tells.
type Response struct {
	Text, Reasoning string
	ToolCalls       []ToolCall
	FinishReason    string
	Usage           Usage
	Model           string
}

// Model answers requests. It is safe for concurrent use. Complete calls the sink from one goroutine, never after it returned, and
// every error it returns is an *Error.
type Model interface {
	Complete(ctx context.Context, request Request, sink func(Delta)) (Response, error)
	Describe() Description
}

// Description says which model this is and how it was decided. BaseURL carries no credentials. ContextLength is in tokens, 0
// when nobody said.
type Description struct {
	Name, Provider, BaseURL string
	ContextLength           int
	Origin                  string
	Offline                 bool
}
