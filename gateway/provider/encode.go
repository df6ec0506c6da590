package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
)

// emptySchema is what a tool without parameters takes.
const emptySchema = `{"type":"object","properties":{}}`

// body is a request under construction. It is assembled by hand so that raw messages and schemas keep their exact bytes, and fields always
// come in one order: what does not change between two requests must be the same bytes, or the server's prefix cache is lost. The first error
// stays.
type body struct {
	bytes.Buffer
	err error
}

// newBody has room for what a request usually takes, so that a long one is not copied while it grows.
func newBody(request Request) *body {
	b := &body{}
	b.Grow(request.size() + request.size()/8 + 64*len(request.Messages) + 1024)
	return b
}

// value encodes without HTML escapes and without the newline an Encoder adds.
func (b *body) value(value any) {
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		b.fail(err)
		return
	}
	b.Truncate(b.Len() - 1)
}

func (b *body) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// field writes a name and its value behind what is there.
func (b *body) field(name string, value any) {
	b.WriteString(`,"` + name + `":`)
	b.value(value)
}

func (b *body) comma(i int) {
	if i > 0 {
		b.WriteByte(',')
	}
}

func (b *body) bytes() ([]byte, error) { return b.Bytes(), b.err }

// encode writes a request body. What the prefix cache of a server sees first comes first: model, rows, tools; what may change from one request
// to the next comes last.
func (c chatAPI) encode(model string, request Request, m manner) ([]byte, error) {
	b := newBody(request)
	b.WriteString(`{"model":`)
	b.value(model)
	b.WriteString(`,"messages":[`)
	system, messages := m.shape(request.System, request.Messages)
	if system != "" {
		b.message(Message{Role: "system", Content: system}, m)
	}
	for i, message := range messages {
		if i > 0 || system != "" {
			b.WriteByte(',')
		}
		if b.message(message, m); b.err != nil {
			return nil, fmt.Errorf("encode message %d: %w", i, b.err)
		}
	}
	b.WriteByte(']')
	b.tools(m.toolsOf(request), m)
	b.WriteString(`,"stream":true`)
	if !m.not[paramUsage] {
		b.WriteString(`,"stream_options":{"include_usage":true}`)
	}
	c.extras(b, request, m)
	b.WriteByte('}')
	return b.bytes()
}

// extras are what a server may refuse.
func (c chatAPI) extras(b *body, request Request, m manner) {
	if limit := m.output(request.MaxTokens); limit > 0 {
		first, second := paramMax, paramMaxNew
		if c.modern {
			first, second = second, first
		}
		switch {
		case !m.not[first]:
			b.field(first, limit)
		case !m.not[second]:
			b.field(second, limit)
		}
	}
	if request.Temperature != nil && !m.not[paramTemp] {
		b.field(paramTemp, *request.Temperature)
	}
	if request.TopP != nil && !m.not[paramTopP] {
		b.field(paramTopP, *request.TopP)
	}
	if len(request.Stop) > 0 && !m.not[paramStop] {
		b.field(paramStop, request.Stop)
	}
	if request.Seed != nil && !m.not[paramSeed] {
		b.field(paramSeed, *request.Seed)
	}
	if request.Effort != "" && !m.not[paramEffort] {
		b.field(paramEffort, request.Effort)
	}
	if c.progress && !m.not[paramProgress] {
		b.field(paramProgress, true)
	}
}

func (b *body) message(message Message, m manner) {
	if len(message.Raw) > 0 {
		if looseObject(message.Raw) == nil {
			b.fail(fmt.Errorf("the stored bytes are no JSON object"))
			return
		}
		b.Write(wholeRunes(message.Raw))
		return
	}
	b.WriteString(`{"role":`)
	b.text(message.Role)
	b.WriteString(`,"content":`)
	switch {
	case len(message.Images) > 0:
		b.content(message.Content, message.Images)
	case message.Content == "" && len(message.ToolCalls) > 0 && m.not[formEmpty]:
		b.WriteString("null")
	default:
		b.text(message.Content)
	}
	if message.Role == "assistant" && m.not[formBare] {
		b.optional("reasoning_content", cmp.Or(message.Reasoning, noThought))
	}
	b.optional("name", message.Name)
	b.calls(message, m)
	if details := message.details(m); details != nil {
		b.WriteString(`,"` + paramDetails + `":`)
		b.Write(details)
	}
	b.optional("tool_call_id", message.ToolCallID)
	b.WriteByte('}')
}

// optional writes a name and a text that may be missing.
func (b *body) optional(name, text string) {
	if text == "" {
		return
	}
	b.WriteString(`,"` + name + `":`)
	b.text(text)
}

func (b *body) calls(message Message, m manner) {
	for i, call := range message.ToolCalls {
		if i == 0 {
			b.WriteString(`,"tool_calls":[`)
		}
		b.comma(i)
		b.WriteString(`{"id":`)
		b.text(call.ID)
		b.WriteString(`,"type":"function","function":{"name":`)
		b.text(call.Name)
		b.WriteString(`,"arguments":`)
		b.text(replayed(call))
		b.WriteByte('}')
		if extra := message.extraOf(i, m); extra != nil {
			b.WriteString(`,"` + paramExtra + `":`)
			b.Write(extra)
		}
		b.WriteByte('}')
	}
	if len(message.ToolCalls) > 0 {
		b.WriteByte(']')
	}
}

// replayed are the arguments of an old call. Templates of local servers parse them and fail for the whole conversation when they are no object;
// the tool's result row already tells the model what was wrong with them.
func replayed(call ToolCall) string {
	if !call.Complete() {
		return "{}"
	}
	return string(wholeRunes([]byte(call.Arguments)))
}

func (b *body) tools(tools []ToolSpec, m manner) {
	for i, tool := range tools {
		if i == 0 {
			b.WriteString(`,"tools":[`)
		}
		b.comma(i)
		b.WriteString(`{"type":"function","function":{"name":`)
		b.text(tool.Name)
		b.WriteString(`,"description":`)
		b.text(tool.Description)
		b.WriteString(`,"parameters":`)
		b.schema(tool, m)
		b.WriteString(`}}`)
	}
	if len(tools) > 0 {
		b.WriteByte(']')
	}
}

// schema writes what a tool takes.
func (b *body) schema(tool ToolSpec, m manner) {
	schema := tool.Parameters
	if len(schema) == 0 {
		schema = json.RawMessage(emptySchema)
	}
	if looseObject(schema) == nil {
		b.fail(fmt.Errorf("encode tool %s: its parameters are no JSON object", tool.Name))
		return
	}
	b.Write(m.schema(schema))
}

var surrogate = regexp.MustCompile(`\\*\\u[dD][89a-fA-F][0-9a-fA-F]{2}`)

// wholeRunes replaces escapes of half a character, which strict parsers refuse together with the whole request. Text without any comes back as it
// is.
func wholeRunes(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(`\ud`)) && !bytes.Contains(raw, []byte(`\uD`)) {
		return raw
	}
	var out []byte
	rest := raw
	for {
		at := surrogate.FindIndex(rest)
		if at == nil {
			return append(out, rest...)
		}
		out = append(out, rest[:at[0]]...)
		found := rest[at[0]:at[1]]
		rest = rest[at[1]:]
		if escapes(found)%2 == 0 { // an escaped backslash and the letters behind it
			out = append(out, found...)
			continue
		}
		if low := surrogate.FindIndex(rest); high(found) && low != nil && low[0] == 0 && escapes(rest[:low[1]]) == 1 && !high(rest[:low[1]]) {
			out = append(append(out, found...), rest[:low[1]]...)
			rest = rest[low[1]:]
			continue
		}
		out = append(append(out, found[:len(found)-6]...), `\ufffd`...)
	}
}

// escapes counts the backslashes before the u.
func escapes(found []byte) int { return len(found) - 5 }

// high reports whether an escape is the first half of a character.
func high(found []byte) bool {
	n, err := strconv.ParseUint(string(found[len(found)-4:]), 16, 16)
	return err == nil && n < 0xdc00
}
