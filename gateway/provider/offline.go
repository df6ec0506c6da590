package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

const offlineName = "offline"

// offlineAdvice ends each answer of the offline model, so that nobody takes it for a real one.
const offlineAdvice = "This is gatewayd's offline model: no language model is connected. To connect one, set model.base_url and model.name " +
	"in config.yaml (any OpenAI-compatible server: Ollama, llama.cpp, vLLM, LM Studio or a cloud), or start a local server on its usual port."

// offlinePiece is how many bytes of text go into one delta; small enough that a stream is seen to be one.
const offlinePiece = 24

type offline struct{ origin string }

// Offline gives the model that is there when no other is: deterministic, without network, and saying in each answer what it is. It
// calls the terminal tool when the last user message has a line beginning with "$ ", and then quotes the tool's output.
func Offline() Model { return offline{origin: "nothing configured"} }

func (o offline) Describe() Description {
	return Description{Name: offlineName, Provider: "offline", Origin: o.origin, Offline: true}
}

func (o offline) Complete(ctx context.Context, request Request, sink func(Delta)) (Response, error) {
	response := Response{Model: offlineName, FinishReason: "stop"}
	if call, ok := offlineCall(request); ok {
		response.ToolCalls, response.FinishReason = []ToolCall{call}, "tool_calls"
	}
	text := offlineText(request, response.ToolCalls)
	for piece := range pieces(text, offlinePiece) {
		if ctx.Err() != nil {
			return Response{}, interrupted(ctx, response)
		}
		emit(sink, Delta{Text: piece})
		response.Text += piece
	}
	if ctx.Err() != nil {
		return Response{}, interrupted(ctx, response)
	}
	for _, call := range response.ToolCalls {
		emit(sink, Delta{ToolName: call.Name})
	}
	response.Usage = offlineUsage(request, response)
	return response, nil
}

// offlineCall decides whether to call the terminal. The id counts the messages before it, so it is the same on a repeat and differs
// within a conversation.
func offlineCall(request Request) (ToolCall, bool) {
	last := len(request.Messages) - 1
	if last < 0 || request.Messages[last].Role != "user" || !hasTool(request.Tools, "terminal") {
		return ToolCall{}, false
	}
	for line := range strings.Lines(messageText(request.Messages[last])) {
		if command, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "$ "); ok {
			arguments, err := json.Marshal(map[string]string{"command": command})
			if err != nil {
				return ToolCall{}, false
			}
			return ToolCall{ID: fmt.Sprintf("call_offline_%d", last), Name: "terminal", Arguments: string(arguments)}, true
		}
	}
	return ToolCall{}, false
}

// offlineText is the whole answer. Before a call it stays silent, after a result it quotes it, else it quotes the question.
func offlineText(request Request, calls []ToolCall) string {
	if len(calls) > 0 {
		return ""
	}
	var last Message
	if n := len(request.Messages); n > 0 {
		last = request.Messages[n-1]
	}
	text := messageText(last)
	switch {
	case last.Role == "tool":
		return "The tool answered:\n\n" + quote(text) + "\n\n" + offlineAdvice
	case strings.TrimSpace(text) == "":
		return offlineAdvice
	}
	return "You wrote:\n\n" + quote(text) + "\n\n" + offlineAdvice
}

// offlineUsage counts four bytes as a token, the usual rule of thumb; it only has to be stable.
func offlineUsage(request Request, response Response) Usage {
	prompt := len(request.System)
	for _, message := range request.Messages {
		prompt += len(messageText(message))
	}
	completion := len(response.Text)
	for _, call := range response.ToolCalls {
		completion += len(call.Arguments)
	}
	return Usage{Prompt: int64(prompt+3) / 4, Completion: int64(completion+3) / 4}
}

// messageText reads a message's text also when only its raw bytes are set.
func messageText(message Message) string {
	if len(message.Raw) == 0 {
		return message.Content
	}
	var raw struct{ Content json.RawMessage }
	if json.Unmarshal(message.Raw, &raw) != nil {
		return message.Content
	}
	return looseText(raw.Content)
}

func hasTool(tools []ToolSpec, name string) bool {
	for _, tool := range tools {
		if tool.Name == name {
			return true
		}
	}
	return false
}

func quote(text string) string {
	return "> " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n> ")
}

// pieces cuts text into parts of about size bytes, never inside a character.
func pieces(text string, size int) func(func(string) bool) {
	return func(yield func(string) bool) {
		start := 0
		for i := range text {
			if i-start >= size {
				if !yield(text[start:i]) {
					return
				}
				start = i
			}
		}
		if start < len(text) {
			yield(text[start:])
		}
	}
}

func emit(sink func(Delta), delta Delta) {
	if sink != nil {
		sink(delta)
	}
}

// interrupted is the error of a call whose caller went away; what had arrived stays in Partial, calls excepted.
func interrupted(ctx context.Context, partial Response) *Error {
	partial.ToolCalls, partial.FinishReason = nil, ""
	cause := context.Cause(ctx)
	return &Error{Class: Interrupted, Message: "the call was ended: " + cause.Error(), Partial: partial, Err: cause}
}
