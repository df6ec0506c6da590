package provider

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"

	"gatewayd/internal/mutation"
)

// maxCalls bounds the tool calls of one answer; no model asks for so many, a looping server does.
const maxCalls = 128

var (
	errGarbage      = errors.New("a chunk is no JSON object")
	errTooManyCalls = errors.New("the answer has more than 128 tool calls")
)

// assembly builds one answer out of chunks. It is a pure state machine: what the sink shall see is returned, not sent.
type assembly struct {
	text, reasoning strings.Builder
	half            string // the beginning of a character, whose end comes with the next chunk
	calls           []*callParts
	thoughts        []*thought
	details         []json.RawMessage
	others          []int64 // blocks that are none of ours, by their index
	tags            thinkTags
	finish          string // why the answer ended, in our words
	fault           *Error // that the answer ended with, where the server says so in one word
	done            bool   // the server said that nothing follows
	usage           Usage
	fresh           int64 // prompt tokens that were neither read from a cache nor written to one, where they are counted apart
	model           string
	progress        progress
}

// thought is one signed piece of reasoning, or one that the server keeps to itself.
type thought struct {
	index           int64
	text, signature string
	hidden          string
}

// progress is how much of the prompt a server has read, where it says so.
type progress struct{ read, of int64 }

// callParts is a tool call under construction. index is -1 when the server sent none.
type callParts struct {
	index     int64
	id, name  string
	arguments strings.Builder
	whole     string          // arguments that came in one piece; pieces that follow replace them
	extra     json.RawMessage // what the server wants back with the call
}

// apply takes one chunk. It returns what is new and whether it was meaningful: text, reasoning or a part of a tool call. An error
// object inside the stream comes back as *Error.
func (a *assembly) apply(data []byte) (Delta, bool, error) {
	top := looseObject(data)
	if top == nil {
		return Delta{}, false, errGarbage
	}
	if isFault(top) {
		return Delta{}, false, classify(0, nil, data)
	}
	if model := looseText(top["model"]); model != "" {
		a.model = model
	}
	a.takeUsage(top["usage"])
	a.takeUsage(looseObject(top["x_groq"])["usage"])
	var delta Delta
	meaningful := a.takeProgress(looseObject(top["prompt_progress"]))
	for _, raw := range looseList(top["choices"]) {
		choice := looseObject(raw)
		if index, ok := looseInt(choice["index"]); ok && index != 0 {
			continue
		}
		a.takeUsage(choice["usage"])
		body := looseObject(choice["delta"])
		if len(body) == 0 {
			body = a.unlessRepeated(looseObject(choice["message"]))
		}
		more, err := a.takeDelta(body, &delta)
		if err != nil {
			return delta, false, err
		}
		meaningful = meaningful || more
		if raw := choice["error"]; !isNull(raw) {
			return delta, meaningful, faultOf(raw)
		}
		if reason := looseText(choice["finish_reason"]); reason != "" {
			a.end(reason)
			delta.Text += a.say(a.tags.rest())
		}
	}
	return delta, meaningful, nil
}

// unlessRepeated drops a message that says once more what the deltas have said: some servers end a stream with the whole answer.
func (a *assembly) unlessRepeated(message map[string]json.RawMessage) map[string]json.RawMessage {
	if a.text.Len()+len(a.calls) > 0 && looseText(message["content"]) == a.text.String() {
		return nil
	}
	return message
}

// reasoningNames are where servers put what a model thinks, if they keep it apart. Those that send it under several send it several times, so
// the first one counts.
var reasoningNames = []string{"reasoning_content", "reasoning", "reasoning_text", "reasoning_details"}

// takeDelta adds one delta object.
func (a *assembly) takeDelta(body map[string]json.RawMessage, delta *Delta) (bool, error) {
	said, thought := looseParts(body["content"])
	for _, name := range reasoningNames {
		if thought == "" {
			thought = looseThoughts(body[name])
		}
	}
	a.takeDetails(body[paramDetails])
	said, inTags := a.tags.split(whole(&a.half, said+looseText(body["refusal"])))
	thought += inTags
	delta.Text += a.say(said)
	delta.Reasoning += a.think(thought)
	meaningful := said != "" || thought != "" || len(looseList(body[paramDetails])) > 0
	for _, raw := range looseList(body["tool_calls"]) {
		fragment := looseObject(raw)
		if fragment == nil {
			continue
		}
		if name := a.takeCall(fragment); name != "" {
			delta.ToolName = name
		}
		if len(a.calls) > maxCalls {
			return false, errTooManyCalls
		}
		meaningful = true
	}
	return meaningful, nil
}

// takeCall merges one fragment and returns the call's name when the fragment brought it first.
func (a *assembly) takeCall(fragment map[string]json.RawMessage) string {
	function := looseObject(fragment["function"])
	id, name := looseText(fragment["id"]), looseText(function["name"])
	arguments := argumentText(function["arguments"])
	index, hasIndex := looseInt(fragment["index"])
	if !hasIndex {
		index = -1
	}
	call := a.find(index, id)
	if call == nil && name == "" {
		call = a.find(index, "") // an id of its own for each piece: a call begins with its name
	}
	if call != nil && id == "" && name != "" && (strings.TrimSpace(arguments) != "" || !call.named(name)) && call.done() {
		call = nil // a second call without an id of its own: the first one is whole and this one starts over
	}
	if call == nil {
		call = &callParts{index: index}
		a.calls = append(a.calls, call)
	}
	if call.id == "" {
		call.id = id
	}
	call.arguments.WriteString(arguments)
	if extra := fragment[paramExtra]; looseObject(extra) != nil && !mutation.On("signatures-are-not-kept") {
		call.extra = bytes.Clone(extra)
	}
	return call.addName(name)
}

// find gives the call a fragment belongs to. A known id under the same index wins; a new id never joins a call that has one; without
// an id the latest call of that index goes on, and without both the latest call.
func (a *assembly) find(index int64, id string) *callParts {
	for i := len(a.calls) - 1; i >= 0; i-- {
		call := a.calls[i]
		sameIndex := index < 0 || call.index < 0 || call.index == index
		switch {
		case id != "" && call.id == id && sameIndex:
			return call
		case id == "" && (index < 0 || call.index == index):
			return call
		case id != "" && call.id == "" && index >= 0 && call.index == index:
			return call
		}
	}
	return nil
}

// takeProgress reads how far the server is with the prompt and reports whether it got further.
func (a *assembly) takeProgress(fields map[string]json.RawMessage) bool {
	read, ok := looseInt(fields["processed"])
	if !ok || read <= a.progress.read {
		return false
	}
	a.progress.read = read
	a.progress.of, _ = looseInt(fields["total"])
	return true
}

// done reports whether the arguments so far are a whole object.
func (c *callParts) done() bool { return ToolCall{Arguments: c.text()}.Complete() }

// text is the arguments so far.
func (c *callParts) text() string {
	if c.arguments.Len() == 0 {
		return c.whole
	}
	return c.arguments.String()
}

// named reports that a name is the call's, or goes on with it.
func (c *callParts) named(name string) bool { return strings.HasPrefix(name, c.name) }

// addName takes a name that comes whole, in pieces, repeated, or growing.
func (c *callParts) addName(name string) string {
	switch {
	case name == "" || name == c.name:
		return ""
	case c.name == "":
		c.name = name
		return name
	case strings.HasPrefix(name, c.name):
		c.name = name
	default:
		c.name += name
	}
	return ""
}

// argumentText reads a piece of the arguments. A server that sends an object instead of its text has sent the whole.
func argumentText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	if looseObject(raw) == nil {
		return ""
	}
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return ""
	}
	return compact.String()
}

// partial is what there is to keep of an answer that broke off: words, never calls.
func (a *assembly) partial() Response {
	return Response{Text: a.text.String(), Reasoning: a.reasoning.String(), Usage: a.usage, Model: a.model}
}

// response is the whole answer. Calls without an id, or with one that is taken, get one of their own, because each result must
// find its call. Empty arguments of an answer that was not cut off are the empty object: that is how servers write "none".
func (a *assembly) response() Response {
	response := a.partial()
	response.FinishReason = a.finish
	response.Thinking = a.signed()
	seen := map[string]bool{}
	for _, parts := range a.calls {
		call := ToolCall{ID: parts.id, Name: parts.name, Arguments: parts.text()}
		if call.ID == "" || seen[call.ID] {
			call.ID = "call_" + rand.Text()
		}
		if strings.TrimSpace(call.Arguments) == "" && a.finish != "length" {
			call.Arguments = "{}"
		}
		seen[call.ID] = true
		response.ToolCalls = append(response.ToolCalls, call)
	}
	switch {
	case len(response.ToolCalls) > 0 && a.finish != "length":
		response.FinishReason = "tool_calls"
	case a.finish == "", a.finish == "tool_calls": // some say that there are calls and send none
		response.FinishReason = "stop"
	}
	return response
}
