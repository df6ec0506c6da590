package provider

import (
	"encoding/json"
	"fmt"
	"slices"
)

// apply takes one event of the stream, or a whole message from a server that does not stream.
func (messagesAPI) apply(a *assembly, e event) (Delta, bool, error) {
	top := looseObject(e.Data)
	if top == nil {
		return Delta{}, false, errGarbage
	}
	kind := looseText(top["type"])
	if kind == "error" || kind == "" && isFault(top) {
		return Delta{}, false, classify(0, nil, e.Data)
	}
	index, _ := looseInt(top["index"])
	switch kind {
	case "message_start", "message":
		return a.startMessage(top, kind)
	case "content_block_start":
		return a.startBlock(index, looseObject(top["content_block"]))
	case "content_block_delta":
		return a.growBlock(index, looseObject(top["delta"]))
	case "message_delta":
		a.stopped(looseObject(top["delta"]))
		a.countMessages(top["usage"])
	case "message_stop":
		a.done = true
	}
	return Delta{}, false, nil // ping, content_block_stop, and what will come to be
}

func (a *assembly) startMessage(top map[string]json.RawMessage, kind string) (delta Delta, meaningful bool, err error) {
	message := top
	if kind == "message_start" {
		message = looseObject(top["message"])
	}
	if model := looseText(message["model"]); model != "" {
		a.model = model
	}
	a.countMessages(message["usage"])
	if kind == "message_start" {
		return delta, false, nil
	}
	for i, raw := range looseList(message["content"]) {
		more, _, err := a.startBlock(int64(i), looseObject(raw))
		if err != nil {
			return delta, true, err
		}
		delta.Text += more.Text
		delta.Reasoning += more.Reasoning
		delta.ToolName = more.ToolName
	}
	a.stopped(message)
	return delta, true, nil
}

// startBlock begins a block. Servers that do not stream arguments send them whole here.
func (a *assembly) startBlock(index int64, content map[string]json.RawMessage) (Delta, bool, error) {
	switch looseText(content["type"]) {
	case "tool_use":
		call := &callParts{index: index, id: looseText(content["id"])}
		a.calls = append(a.calls, call)
		if len(a.calls) > maxCalls {
			return Delta{}, false, errTooManyCalls
		}
		if input := looseObject(content["input"]); len(input) > 0 {
			call.whole = argumentText(content["input"])
		}
		return Delta{ToolName: call.addName(looseText(content["name"]))}, true, nil
	case "thinking":
		a.thoughts = append(a.thoughts, &thought{index: index, signature: looseText(content["signature"])})
		return thinks(a.think(looseText(content["thinking"])))
	case "redacted_thinking":
		a.thoughts = append(a.thoughts, &thought{index: index, hidden: looseText(content["data"])})
		return Delta{}, true, nil
	}
	if kind := looseText(content["type"]); kind != "text" && kind != "" {
		a.others = append(a.others, index)
	}
	return says(a.say(looseText(content["text"])))
}

func (a *assembly) growBlock(index int64, delta map[string]json.RawMessage) (Delta, bool, error) {
	switch looseText(delta["type"]) {
	case "input_json_delta":
		call := a.find(index, "")
		if call == nil && slices.Contains(a.others, index) {
			return Delta{}, false, nil // what the server does by itself
		}
		if call == nil {
			return Delta{}, false, fmt.Errorf("%w: arguments for a call that has not begun", errGarbage)
		}
		call.arguments.WriteString(argumentText(delta["partial_json"]))
		return Delta{}, true, nil
	case "thinking_delta":
		return thinks(a.think(looseText(delta["thinking"])))
	case "signature_delta":
		if n := len(a.thoughts); n > 0 {
			a.thoughts[n-1].signature += looseText(delta["signature"])
		}
		return Delta{}, true, nil
	}
	return says(a.say(whole(&a.half, rawText(delta["text"]))))
}

func says(text string) (Delta, bool, error) { return Delta{Text: text}, text != "", nil }

func thinks(text string) (Delta, bool, error) { return Delta{Reasoning: text}, text != "", nil }

func (a *assembly) say(text string) string {
	a.text.WriteString(text)
	return text
}

func (a *assembly) think(text string) string {
	a.reasoning.WriteString(text)
	if n := len(a.thoughts); n > 0 {
		a.thoughts[n-1].text += text
	}
	return text
}

func (a *assembly) stopped(fields map[string]json.RawMessage) {
	if reason := looseText(fields["stop_reason"]); reason != "" {
		a.end(reason)
	}
}

// countMessages reads usage. The first event counts the prompt and the last one the answer; later totals replace earlier ones.
func (a *assembly) countMessages(raw json.RawMessage) {
	fields := looseObject(raw)
	read := func(name string, into *int64) {
		if n, ok := looseInt(fields[name]); ok && n >= 0 {
			*into = n
		}
	}
	read("input_tokens", &a.fresh)
	read("cache_read_input_tokens", &a.usage.Cached)
	read("cache_creation_input_tokens", &a.usage.CacheWrite)
	read("output_tokens", &a.usage.Completion)
	a.usage.Prompt = a.fresh + a.usage.Cached + a.usage.CacheWrite
}
