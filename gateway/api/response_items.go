package api

import (
	"encoding/json"
	"fmt"
	"strings"

	"gatewayd/gateway"
	"gatewayd/sessiondb"
)

// maxOutput bounds what an item shows of a tool's result; the rows have the whole.
const maxOutput = 16 << 10

// items are the output of a response in the making: messages, calls and their results, in the order in which they came. emit is told of
// each step as a stream tells it; nil: nobody listens.
type items struct {
	id   string // of the response, without its prefix
	list []map[string]any
	emit func(kind string, body map[string]any)

	text *strings.Builder // of the message that is being said; nil: none
	all  strings.Builder  // of all messages, with the space between them
}

func (o *items) tell(kind string, body map[string]any) {
	if o.emit != nil {
		o.emit(kind, body)
	}
}

// event takes what a turn shows.
func (o *items) event(e gateway.Event) {
	switch e.Kind {
	case gateway.EventDelta:
		o.say(e.Text)
	case gateway.EventToolStarted:
		o.call(e.CallID, e.Tool, e.Text)
	case gateway.EventToolFinished:
		o.output(e.CallID, e.Text)
	}
}

// rows takes what is stored of a turn.
func (o *items) rows(rows []sessiondb.Message) {
	for _, m := range rows {
		switch m.Role {
		case "assistant":
			o.say(m.Content)
			for _, c := range callsOf(m.ToolCalls) {
				o.call(c.ID, c.Function.Name, c.Function.Arguments)
			}
			o.close("completed")
		case "tool":
			o.output(m.ToolCallID, m.Content)
		}
	}
}

// calledRow is a call as a row has it.
type calledRow struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func callsOf(raw json.RawMessage) (calls []calledRow) {
	_ = json.Unmarshal(raw, &calls) // what cannot be read is no call
	return calls
}

// say adds a piece to the message, and begins one where there is none.
func (o *items) say(text string) {
	if o.text == nil {
		text = strings.TrimLeft(text, "\n")
	}
	if text == "" {
		return
	}
	if o.text == nil {
		o.text = &strings.Builder{}
		if o.all.Len() > 0 {
			o.all.WriteString("\n\n")
		}
		o.add(map[string]any{"id": o.name("msg"), "type": "message", "role": "assistant", "status": "in_progress", "content": []any{}})
		o.tell("response.content_part.added", o.at(map[string]any{"content_index": 0, "part": textPart("")}))
	}
	o.text.WriteString(text)
	o.all.WriteString(text)
	o.tell("response.output_text.delta", o.at(map[string]any{"content_index": 0, "delta": text, "logprobs": []any{}}))
}

func (o *items) name(kind string) string { return fmt.Sprintf("%s_%s_%d", kind, o.id, len(o.list)) }

func textPart(text string) map[string]any {
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

// add begins an item.
func (o *items) add(item map[string]any) {
	o.list = append(o.list, item)
	shown := map[string]any{}
	for name, value := range item {
		shown[name] = value
	}
	if item["type"] == "function_call" {
		shown["arguments"] = ""
	}
	o.tell("response.output_item.added", map[string]any{"output_index": len(o.list) - 1, "item": shown})
}

// at puts the place of the newest item into the body of an event.
func (o *items) at(body map[string]any) map[string]any {
	last := len(o.list) - 1
	body["output_index"], body["item_id"] = last, o.list[last]["id"]
	return body
}

// done ends the newest item.
func (o *items) done(status string) {
	last := len(o.list) - 1
	o.list[last]["status"] = status
	o.tell("response.output_item.done", map[string]any{"output_index": last, "item": o.list[last]})
}

// close ends the message that is being said, if one is.
func (o *items) close(status string) {
	if o.text == nil {
		return
	}
	text := o.text.String()
	o.text = nil
	o.tell("response.output_text.done", o.at(map[string]any{"content_index": 0, "text": text, "logprobs": []any{}}))
	o.tell("response.content_part.done", o.at(map[string]any{"content_index": 0, "part": textPart(text)}))
	o.list[len(o.list)-1]["content"] = []any{textPart(text)}
	o.done(status)
}

func (o *items) call(id, name, arguments string) {
	o.close("completed")
	o.add(map[string]any{"id": o.name("fc"), "type": "function_call", "call_id": id, "name": name, "arguments": arguments, "status": "in_progress"})
	o.tell("response.function_call_arguments.delta", o.at(map[string]any{"delta": arguments}))
	o.tell("response.function_call_arguments.done", o.at(map[string]any{"name": name, "arguments": arguments}))
	o.done("completed")
}

func (o *items) output(id, text string) {
	o.close("completed")
	if cut := len(text) - maxOutput; cut > 0 {
		text = strings.ToValidUTF8(text[:maxOutput], "") + fmt.Sprintf("… (%d more bytes are in the session)", cut)
	}
	o.add(map[string]any{"id": o.name("fco"), "type": "function_call_output", "call_id": id, "output": text, "status": "completed"})
	o.done("completed")
}

func (o *items) visible() bool { return strings.TrimSpace(o.all.String()) != "" }
