package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// emptySchema is what a tool without parameters takes.
const emptySchema = `{"type":"object","properties":{}}`

type wireCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type wireMessage struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	Name       string     `json:"name,omitempty"`
	ToolCalls  []wireCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// encode writes a request body. It is assembled by hand so that raw messages and schemas keep their exact bytes, and fields always
// come in one order: what does not change between two requests must be the same bytes, or the server's prefix cache is lost.
func encode(model string, request Request) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`{"model":`)
	if err := writeValue(&b, model); err != nil {
		return nil, err
	}
	b.WriteString(`,"messages":[`)
	messages := request.Messages
	if request.System != "" {
		if err := writeMessage(&b, Message{Role: "system", Content: request.System}); err != nil {
			return nil, err
		}
	}
	for i, message := range messages {
		if i > 0 || request.System != "" {
			b.WriteByte(',')
		}
		if err := writeMessage(&b, message); err != nil {
			return nil, fmt.Errorf("encode message %d: %w", i, err)
		}
	}
	b.WriteByte(']')
	if err := writeTools(&b, request.Tools); err != nil {
		return nil, err
	}
	b.WriteString(`,"stream":true,"stream_options":{"include_usage":true}}`)
	return b.Bytes(), nil
}

func writeMessage(b *bytes.Buffer, message Message) error {
	if len(message.Raw) > 0 {
		if looseObject(message.Raw) == nil {
			return fmt.Errorf("the stored bytes are no JSON object")
		}
		b.Write(message.Raw)
		return nil
	}
	wire := wireMessage{Role: message.Role, Content: message.Content, Name: message.Name, ToolCallID: message.ToolCallID}
	for _, call := range message.ToolCalls {
		// Templates of local servers parse old arguments and fail for the whole conversation when one is no object. The tool's
		// result row already tells the model what was wrong with them.
		if !call.Complete() {
			call.Arguments = "{}"
		}
		wire.ToolCalls = append(wire.ToolCalls, wireCall{ID: call.ID, Type: "function", Function: wireFunction{Name: call.Name, Arguments: call.Arguments}})
	}
	return writeValue(b, wire)
}

func writeTools(b *bytes.Buffer, tools []ToolSpec) error {
	for i, tool := range tools {
		if i == 0 {
			b.WriteString(`,"tools":[`)
		} else {
			b.WriteByte(',')
		}
		b.WriteString(`{"type":"function","function":{"name":`)
		if err := writeValue(b, tool.Name); err != nil {
			return err
		}
		b.WriteString(`,"description":`)
		if err := writeValue(b, tool.Description); err != nil {
			return err
		}
		schema := tool.Parameters
		if len(schema) == 0 {
			schema = json.RawMessage(emptySchema)
		}
		if looseObject(schema) == nil {
			return fmt.Errorf("encode tool %s: its parameters are no JSON object", tool.Name)
		}
		b.WriteString(`,"parameters":`)
		b.Write(schema)
		b.WriteString(`}}`)
	}
	if len(tools) > 0 {
		b.WriteByte(']')
	}
	return nil
}

// writeValue encodes without HTML escapes and without the newline an Encoder adds.
func writeValue(b *bytes.Buffer, value any) error {
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1)
	return nil
}
