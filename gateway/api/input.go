package api

import (
	"encoding/json"
	"fmt"
	"strings"

	"gatewayd/gateway/provider"
)

// prompt is what a client of responses and runs wants said, as far as it is ours: the last user message is what is said, the ones before
// it are the history as the client tells it, system messages are one text.
type prompt struct {
	System  string
	History []provider.Message
	Text    string
	Images  []provider.Image
	Items   []map[string]any // the input as a list of items, with ids, as it is given back
}

// later is a field that is read when the others are.
func later(field string) func(object) error {
	return func(o object) error {
		o.asked[field] = true
		return nil
	}
}

// takeInput reads input: a text, or a list of items. Nothing is dropped in silence: an item that cannot be read is an error.
func (p *prompt) takeInput(o object, field string) error {
	raw := o.fields[field]
	if !o.has(field) {
		return errField(o.name(field), "is missing; it is what is said")
	}
	if jsonKind(raw) == "a string" {
		if err := take(o, field, &p.Text); err != nil {
			return err
		}
		p.Items = []map[string]any{{"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": p.Text}}}}
		return p.said(o.name(field))
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return errType(o.name(field), "a string or a list of items", raw)
	}
	if o.asked != nil {
		o.asked[field] = true
	}
	if len(list) > maxParts {
		return errField(o.name(field), "has %d items; %d is the most", len(list), maxParts)
	}
	for i, raw := range list {
		if err := p.takeItem(fmt.Sprintf("%s[%d]", o.name(field), i), raw); err != nil {
			return err
		}
	}
	last := len(p.History) - 1
	if last < 0 || p.History[last].Role != "user" {
		return errField(o.name(field), "the last item must be the user's message; it is what is answered")
	}
	p.Text, p.Images, p.History = p.History[last].Content, p.History[last].Images, p.History[:last]
	return p.said(o.name(field))
}

func (p *prompt) said(field string) error {
	if strings.TrimSpace(p.Text) == "" && len(p.Images) == 0 {
		return errField(field, "is empty; it is what is said")
	}
	return nil
}

func (p *prompt) takeItem(path string, raw json.RawMessage) error {
	o := object{path: path}
	if json.Unmarshal(raw, &o.fields) != nil || o.fields == nil {
		return errType(path, "an object", raw)
	}
	kind := "message"
	if err := take(o, "type", &kind); err != nil {
		return err
	}
	var shown map[string]any
	_ = json.Unmarshal(raw, &shown) // it is an object
	shown["type"] = kind
	switch kind {
	case "message":
		m, err := parseMessage(path, raw)
		if err != nil {
			return err
		}
		if text, isText := shown["content"].(string); isText {
			shown["content"] = []any{map[string]any{"type": partOf(m.Role), "text": text}}
		}
		p.add(m)
	case "function_call":
		if err := p.takeCall(o); err != nil {
			return err
		}
	case "function_call_output":
		m := provider.Message{Role: "tool"}
		if err := take(o, "call_id", &m.ToolCallID); err != nil {
			return err
		}
		if err := takeOutput(o, &m.Content); err != nil {
			return err
		}
		p.add(m)
	case "reasoning": // the model's own: it is not sent back
		return nil
	default:
		e := errField(o.name("type"), "must be message, function_call, function_call_output or reasoning, not %.50q", kind)
		e.code = "unsupported_input_item"
		return e
	}
	p.Items = append(p.Items, shown)
	return nil
}

func partOf(role string) string {
	if role == "assistant" {
		return "output_text"
	}
	return "input_text"
}

// takeOutput reads a text, or a list of parts.
func takeOutput(o object, text *string) error {
	inner := object{path: o.path, fields: map[string]json.RawMessage{"content": o.fields["output"]}}
	return takeContent(inner, text)
}

// takeCall reads a call in the history. Calls in a row, and a text before them, are one answer of the model.
func (p *prompt) takeCall(o object) error {
	var c provider.ToolCall
	for _, step := range []func() error{
		func() error { return take(o, "call_id", &c.ID) },
		func() error { return take(o, "name", &c.Name) },
		func() error { return take(o, "arguments", &c.Arguments) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if c.ID == "" || c.Name == "" {
		return errField(o.path, "wants call_id and name")
	}
	if n := len(p.History) - 1; n >= 0 && p.History[n].Role == "assistant" {
		p.History[n].ToolCalls = append(p.History[n].ToolCalls, c)
		return nil
	}
	p.add(provider.Message{Role: "assistant", ToolCalls: []provider.ToolCall{c}})
	return nil
}

func (p *prompt) add(m provider.Message) {
	if m.Role == "system" {
		p.System = strings.TrimSpace(p.System + "\n\n" + m.Content)
		return
	}
	p.History = append(p.History, m)
}

// onward makes one message of what is said in a conversation that is there already: its history is its own, and what a client adds can
// only be the user's.
func (p *prompt) onward(field, because string) error {
	texts := make([]string, 0, len(p.History)+1)
	for _, m := range p.History {
		if m.Role != "user" {
			return errField(field, "with %s it can only be what the user says now; the rest is in the conversation", because)
		}
		texts = append(texts, m.Content)
	}
	p.Text, p.History = strings.Join(append(texts, p.Text), "\n\n"), nil
	return nil
}

// name gives each item its id.
func (p *prompt) name(id string) {
	for i, item := range p.Items {
		if text, _ := item["id"].(string); text == "" {
			item["id"] = fmt.Sprintf("%s_%s_in%d", kindPrefix[fmt.Sprint(item["type"])], id, i)
		}
		if _, known := item["status"]; !known {
			item["status"] = "completed"
		}
	}
}

var kindPrefix = map[string]string{"message": "msg", "function_call": "fc", "function_call_output": "fco"}
