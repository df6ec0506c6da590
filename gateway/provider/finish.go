package provider

import (
	"encoding/json"
	"strings"
)

// ended is the word for an answer that its server gave up.
const ended = "error"

// finishes are the words of servers for why an answer ended, in ours. A word that is not here stays as it is.
var finishes = map[string]string{
	"stop": "stop", "end_turn": "stop", "stop_sequence": "stop", "pause_turn": "stop", "eos": "stop", "eos_token": "stop", "end": "stop", "completed": "stop", "complete": "stop",
	"length": "length", "max_tokens": "length", "model_length": "length", "max_length": "length", "max_output_tokens": "length", "model_context_window_exceeded": "length",
	"tool_calls": "tool_calls", "tool_call": "tool_calls", "tool_use": "tool_calls", "function_call": "tool_calls",
	"content_filter": "content_filter", "refusal": "content_filter", "safety": "content_filter", "sensitive": "content_filter", "recitation": "content_filter",
	"blocklist": "content_filter", "prohibited_content": "content_filter", "spii": "content_filter",
	"error": ended, "network_error": ended, "insufficient_system_resource": ended, "abort": ended, "aborted": ended, "cancelled": ended, "malformed_function_call": ended,
}

// end takes in why the answer ended. Gemini writes a filter's name and a colon before its reason.
func (a *assembly) end(reason string) {
	word := strings.ToLower(reason)
	if _, after, ok := strings.Cut(word, ": "); ok && finishes[word] == "" {
		word = after
	}
	a.finish = reason
	if ours := finishes[word]; ours != "" {
		a.finish = ours
	}
	if a.finish == ended {
		a.fault = endedBy(word)
	}
}

// endedBy is the error of an answer that its server gave up with one word.
func endedBy(word string) *Error {
	class, what := ServerError, "with the reason "+word
	switch word {
	case ended:
		what = "with an error it did not name"
	case "insufficient_system_resource":
		class = Overloaded
	case "malformed_function_call":
		what = "because the model wrote a tool call that is none"
	}
	return &Error{Class: class, Message: "the server ended the answer " + what, Remedy: remedies[class]}
}

// isFault tells an error inside a 200 from a chunk: by its name, or because it says something and is no part of an answer.
func isFault(top map[string]json.RawMessage) bool {
	if !isNull(top["error"]) || looseText(top["object"]) == "error" || looseText(top["type"]) == "error" {
		return true
	}
	if status, ok := looseInt(looseObject(top["base_resp"])["status_code"]); ok && status != 0 {
		return true
	}
	for _, part := range []string{"choices", "usage", "type"} {
		if _, ok := top[part]; ok {
			return false
		}
	}
	return looseText(top["message"])+looseText(top["msg"])+looseText(top["detail"]) != ""
}

// faultOf is the error that one choice of an answer ended with.
func faultOf(raw json.RawMessage) *Error {
	body, err := json.Marshal(map[string]json.RawMessage{"error": raw})
	if err != nil {
		return endedBy(ended)
	}
	return classify(0, nil, body)
}

func isNull(raw json.RawMessage) bool {
	switch strings.TrimSpace(string(raw)) {
	case "", "null", "false", `""`, "{}", "[]", "0":
		return true
	}
	return false
}
