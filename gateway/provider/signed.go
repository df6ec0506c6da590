package provider

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/big"
)

// What servers want back of an answer besides its text and its calls, and the ids of calls that some of them take.

// unsigned stands for the signature of a call that another server's model made. Google names it for this.
const unsigned = `{"google":{"thought_signature":"skip_thought_signature_validator"}}`

// noThought stands for the reasoning of an answer without any, for servers that refuse to miss it and refuse an empty one.
const noThought = " "

// undetailed stands for the same with OpenRouter, which names the call.
const undetailed = `[{"type":"reasoning.encrypted","data":"skip_thought_signature_validator","format":"google-gemini-v1","index":0,"id":%q}]`

// extras is the form of Response.Thinking on the wire of chat completions: of calls one for each, null where none came; details are an aggregator's.
type extras struct {
	Calls   []json.RawMessage `json:"extra_content,omitempty"`
	Details []json.RawMessage `json:"reasoning_details,omitempty"`
}

// takeDetails keeps those pieces of reasoning that only the server can read: the others are reasoning like any other.
func (a *assembly) takeDetails(raw json.RawMessage) {
	for _, piece := range looseList(raw) {
		if looseText(looseObject(piece)["type"]) == "reasoning.encrypted" && len(a.details) < maxCalls {
			a.details = append(a.details, bytes.Clone(piece))
		}
	}
}

// signed is the reasoning that has to go back to the server with the calls that came of it, as the server wants it.
func (a *assembly) signed() json.RawMessage {
	var list []any
	for _, t := range a.thoughts {
		switch {
		case t.hidden != "":
			list = append(list, map[string]string{"type": "redacted_thinking", "data": t.hidden})
		case t.signature != "":
			list = append(list, map[string]string{"type": "thinking", "thinking": t.text, "signature": t.signature})
		}
	}
	with, any := extras{Details: a.details}, len(a.details) > 0
	for _, call := range a.calls {
		with.Calls, any = append(with.Calls, call.extra), any || call.extra != nil
	}
	switch {
	case len(a.calls) > 0 && len(list) > 0:
		return marshalled(list)
	case len(a.calls) > 0 && any:
		return marshalled(with)
	}
	return nil
}

func marshalled(value any) json.RawMessage {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return raw
}

// signedBlocks are the blocks that the Messages API gave with a row's calls; none where another wire's answer it was.
func signedBlocks(thinking json.RawMessage) (blocks []json.RawMessage) {
	if json.Unmarshal(thinking, &blocks) != nil {
		return nil
	}
	return blocks
}

// extraOf is what goes back with the nth call of a row; nil for nothing.
func (m Message) extraOf(n int, how manner) json.RawMessage {
	var with extras
	switch {
	case how.not[paramExtra]:
	case json.Unmarshal(m.Thinking, &with) == nil && n < len(with.Calls) && !isNull(with.Calls[n]):
		return with.Calls[n]
	case how.not[formUnsigned] && n == 0 && with.Calls == nil: // of calls that were made together only the first is signed
		return json.RawMessage(unsigned)
	}
	return nil
}

// details are the pieces of reasoning that go back with a row's calls; nil for none.
func (m Message) details(how manner) json.RawMessage {
	var with extras
	switch {
	case len(m.ToolCalls) == 0 || how.not[paramDetails]:
	case json.Unmarshal(m.Thinking, &with) == nil && len(with.Details) > 0:
		return marshalled(with.Details)
	case how.not[formUndetailed]:
		return fmt.Appendf(nil, undetailed, m.ToolCalls[0].ID)
	}
	return nil
}

// toolsOf are a request's tools, or stand-ins for those that its rows have called, for servers that want the one wherever the other is.
func (m manner) toolsOf(request Request) []ToolSpec {
	if len(request.Tools) > 0 || !m.not[formToolless] {
		return request.Tools
	}
	var tools []ToolSpec
	for _, message := range request.Messages {
		for _, call := range plain(message).ToolCalls {
			if !hasTool(tools, call.Name) {
				tools = append(tools, ToolSpec{Name: call.Name, Description: "is not there any more; do not call it"})
			}
		}
	}
	return tools
}

// shortIDs gives the calls of a conversation ids that every server takes: nine letters and digits that follow from the ones they have.
func shortIDs(messages []Message) []Message {
	out := make([]Message, len(messages))
	for i, message := range messages {
		message = plain(message)
		calls := make([]ToolCall, len(message.ToolCalls))
		for j, call := range message.ToolCalls {
			calls[j] = call
			calls[j].ID = shortID(call.ID)
		}
		message.ToolCalls = calls
		if message.ToolCallID != "" {
			message.ToolCallID = shortID(message.ToolCallID)
		}
		out[i] = message
	}
	return out
}

const shortIDLength = 9

func shortID(id string) string {
	if len(id) == shortIDLength && isAlphanumeric(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return new(big.Int).SetBytes(sum[:]).Text(62)[:shortIDLength]
}

func isAlphanumeric(text string) bool {
	for _, r := range text {
		if !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return false
		}
	}
	return true
}
