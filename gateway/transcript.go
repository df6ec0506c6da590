package gateway

import (
	"encoding/json"

	"gatewayd/gateway/provider"
	"gatewayd/sessiondb"
)

// The roles of rows and of messages are the same words.
const (
	roleSystem    = "system"
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
)

// Intents of a call, written with its row before it starts, so that a process that finds the call unanswered knows what it may
// have done.
const (
	intentNone     = "none"     // it only reads, or was never going to run
	intentPossible = "possible" // it may change something
)

// Sentences that Replay puts where a row is missing. They are constants: the same rows must give the same bytes for ever.
const (
	gapAnswer  = "[no answer was recorded]"
	gapResult  = "[no result was recorded; if this call had an effect, it is UNKNOWN. Look before repeating it]"
	joinAnswer = "\n\n"
)

// storedCall is one call as the tool_calls column holds it: OpenAI's form and our intent. Arguments is what may be sent again;
// Said keeps what the model wrote when that was not a JSON object, because servers refuse a conversation that contains it.
type storedCall struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Function storedFunction `json:"function"`
	Intent   string         `json:"intent,omitempty"`
	Said     string         `json:"said,omitempty"`
}

type storedFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Replay gives the messages a request carries for a transcript (its live rows in id order). It is a pure function and total:
// roles alternate and every call has exactly one result in the order of the calls, whatever the rows are. Appending rows only
// ever appends messages, except that an answer in two rows is joined.
func Replay(rows []sessiondb.Message) []provider.Message {
	var out []provider.Message
	for i, row := range rows {
		switch row.Role {
		case roleUser:
			out = appendUser(out, row)
		case roleAssistant:
			out = appendAssistant(out, row, results(rows[i+1:]))
		}
	}
	return out
}

func appendUser(out []provider.Message, row sessiondb.Message) []provider.Message {
	if n := len(out); n > 0 && out[n-1].Role != roleAssistant {
		out = append(out, provider.Message{Role: roleAssistant, Content: gapAnswer})
	}
	return append(out, provider.Message{Role: roleUser, Content: sent(row)})
}

func appendAssistant(out []provider.Message, row sessiondb.Message, answers map[string]sessiondb.Message) []provider.Message {
	calls := storedCalls(row)
	if sent(row) == "" && len(calls) == 0 {
		return out
	}
	message := provider.Message{Role: roleAssistant, Content: sent(row), ToolCalls: wireCalls(calls)}
	if n := len(out); n > 0 && out[n-1].Role == roleAssistant {
		message.Content = join(out[n-1].Content, message.Content)
		out = out[:n-1]
	}
	out = append(out, message)
	for _, call := range calls {
		out = append(out, provider.Message{Role: roleTool, ToolCallID: call.ID, Content: resultText(answers, call.ID)})
	}
	return out
}

// results maps call ids to the rows that answer them, up to the next row that is no result. The first answer of a call counts.
func results(rows []sessiondb.Message) map[string]sessiondb.Message {
	answers := map[string]sessiondb.Message{}
	for _, row := range rows {
		if row.Role != roleTool {
			break
		}
		if _, ok := answers[row.ToolCallID]; !ok {
			answers[row.ToolCallID] = row
		}
	}
	return answers
}

func resultText(answers map[string]sessiondb.Message, id string) string {
	if row, ok := answers[id]; ok {
		return sent(row)
	}
	return gapResult
}

// sent is what goes over the wire for a row: the sidecar when there is one.
func sent(row sessiondb.Message) string {
	if row.Wire != "" {
		return row.Wire
	}
	return row.Content
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + joinAnswer + b
}

// storedCalls reads a row's calls; what cannot be read counts as no calls.
func storedCalls(row sessiondb.Message) []storedCall {
	var calls []storedCall
	if len(row.ToolCalls) == 0 || json.Unmarshal(row.ToolCalls, &calls) != nil {
		return nil
	}
	return calls
}

func wireCalls(calls []storedCall) []provider.ToolCall {
	var out []provider.ToolCall
	for _, call := range calls {
		out = append(out, provider.ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments})
	}
	return out
}
