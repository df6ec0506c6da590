package gateway

import (
	"encoding/json"
	"slices"

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
	// Thinking is in the first call of an answer: signed reasoning that its server wants back together with the calls.
	Thinking json.RawMessage `json:"thinking,omitempty"`
}

type storedFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Replay gives the messages a request carries for a transcript (its live rows in id order). It is a pure function and total:
// roles alternate and every call has exactly one result in the order of the calls, whatever the rows are. Appending rows only
// ever appends messages, except that an answer in two rows is joined.
func Replay(rows []sessiondb.Message) []provider.Message {
	messages, _ := replay(rows)
	return messages
}

// replay is Replay, with the row behind each message; 0 where there is none.
func replay(rows []sessiondb.Message) ([]provider.Message, []int64) {
	b := messages{out: make([]provider.Message, 0, len(rows)+8), from: make([]int64, 0, len(rows)+8)}
	for i, row := range rows {
		switch row.Role {
		case roleUser:
			b.user(row)
		case roleAssistant:
			b.assistant(row, rows[i+1:])
		}
	}
	return b.out, b.from
}

// messages is a request in the making.
type messages struct {
	out     []provider.Message
	from    []int64
	steered bool // the last message is what a person said into a turn

	pictures int // in out
	bytes    int // of them
}

func (b *messages) add(m provider.Message, row int64) {
	b.out, b.from = append(b.out, m), append(b.from, row)
}

func (b *messages) last() string {
	if len(b.out) == 0 {
		return ""
	}
	return b.out[len(b.out)-1].Role
}

// user adds what a person said. Into a running turn it is said behind a tool's result, without an answer in between; several that
// were said at once are one message.
func (b *messages) user(row sessiondb.Message) {
	text, images := carried(row)
	b.show(images)
	into := row.Kind == sessiondb.KindSteer || row.Kind == sessiondb.KindResumed
	switch last := b.last(); {
	case into && last == roleTool:
	case row.Kind == sessiondb.KindSteer && last == roleUser && b.steered:
		n := len(b.out) - 1
		b.out[n].Content, b.out[n].Images = join(b.out[n].Content, text), append(slices.Clip(b.out[n].Images), images...)
		return
	case last != "" && last != roleAssistant:
		b.add(provider.Message{Role: roleAssistant, Content: gapAnswer}, 0)
	}
	b.steered = row.Kind == sessiondb.KindSteer
	b.add(provider.Message{Role: roleUser, Content: text, Images: images}, row.ID)
}

func (b *messages) assistant(row sessiondb.Message, after []sessiondb.Message) {
	calls := storedCalls(row)
	if sent(row) == "" && len(calls) == 0 {
		return
	}
	message := provider.Message{Role: roleAssistant, Content: sent(row), ToolCalls: wireCalls(calls), Reasoning: row.Reasoning}
	if len(calls) > 0 {
		message.Thinking = calls[0].Thinking
	}
	if n := len(b.out) - 1; b.last() == roleAssistant {
		message.Content, message.Reasoning = join(b.out[n].Content, message.Content), join(b.out[n].Reasoning, message.Reasoning)
		b.out, b.from = b.out[:n], b.from[:n]
	}
	b.add(message, row.ID)
	if len(calls) == 0 {
		return
	}
	answers := results(after)
	for _, call := range calls {
		text, id := gapResult, int64(0)
		if result, ok := answers[call.ID]; ok {
			text, id = sent(result), result.ID
		}
		b.add(provider.Message{Role: roleTool, ToolCallID: call.ID, Content: text}, id)
	}
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
