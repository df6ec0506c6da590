package provider

import (
	"crypto/sha256"
	"encoding/json"
	"math/big"
)

// What servers want back of an answer besides its text and its calls, and the ids of calls that some of them take.

// unsigned stands for the signature of a call that another server's model made. Google names it for this.
const unsigned = `{"google":{"thought_signature":"skip_thought_signature_validator"}}`

// noThought stands for the reasoning of an answer without any, for servers that refuse to miss it and refuse an empty one.
const noThought = " "

// extras is the form of Response.Thinking on the wire of chat completions: one for each call, null where none came.
type extras struct {
	Calls []json.RawMessage `json:"extra_content"`
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
	var with extras
	any := false
	for _, call := range a.calls {
		with.Calls, any = append(with.Calls, call.extra), any || call.extra != nil
	}
	switch {
	case len(a.calls) > 0 && len(list) > 0:
		return marshalled(list)
	case any:
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
