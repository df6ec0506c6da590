package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"gatewayd/gateway/provider"
)

// completion is a chat request as far as it is ours: the last user message is what is said, the ones before it are the history as the
// client tells it, system messages are one text.
type completion struct {
	Model        string
	System       string
	History      []provider.Message
	Text         string
	Images       []provider.Image
	Wishes       provider.Wishes
	Stream       bool
	IncludeUsage bool
}

// parseCompletion reads a body. It is pure; each error names the field.
func parseCompletion(body []byte) (completion, error) {
	o, err := parseObject(body)
	if err != nil {
		return completion{}, err
	}
	var c completion
	n := int64(1)
	options, err := o.sub("stream_options")
	for _, step := range []func() error{
		func() error { return err },
		func() error { return take(o, "model", &c.Model) },
		func() error { return take(o, "stream", &c.Stream) },
		func() error { return take(options, "include_usage", &c.IncludeUsage) },
		func() error { return take(o, "n", &n) },
		o.checkAsked,
		func() error { return takeWishes(o, &c.Wishes, "max_tokens", "max_completion_tokens") },
		func() error { return c.takeMessages(o) },
	} {
		if err := step(); err != nil {
			return completion{}, err
		}
	}
	return c, nil
}

func (c *completion) takeMessages(o object) error {
	var list []json.RawMessage
	if err := take(o, "messages", &list); err != nil {
		return err
	}
	var system []string
	for i, raw := range list {
		message, err := parseMessage(fmt.Sprintf("messages[%d]", i), raw)
		if err != nil {
			return err
		}
		if message.Role == "system" {
			system = append(system, message.Content)
			continue
		}
		c.History = append(c.History, message)
	}
	c.System = strings.TrimSpace(strings.Join(system, "\n\n"))
	last := len(c.History) - 1
	if last < 0 || c.History[last].Role != "user" {
		return errField("messages", "the last message must be the user's; it is what is answered")
	}
	c.Text, c.Images, c.History = c.History[last].Content, c.History[last].Images, c.History[:last]
	if strings.TrimSpace(c.Text) == "" && len(c.Images) == 0 {
		return errField("messages", "the last message is empty")
	}
	return nil
}

// parseMessage reads one message. Roles that mean the same become one.
func parseMessage(path string, raw json.RawMessage) (provider.Message, error) {
	o := object{path: path}
	if json.Unmarshal(raw, &o.fields) != nil || o.fields == nil {
		return provider.Message{}, errType(path, "an object", raw)
	}
	var m provider.Message
	for _, step := range []func() error{
		func() error { return take(o, "role", &m.Role) },
		func() error { return take(o, "tool_call_id", &m.ToolCallID) },
		func() error { return take(o, "name", &m.Name) },
		func() error { return takeSaid(o, &m) },
	} {
		if err := step(); err != nil {
			return m, err
		}
	}
	switch m.Role {
	case "developer":
		m.Role = "system"
	case "function":
		m.Role = "tool"
	case "assistant":
		return m, takeCalls(o, &m.ToolCalls)
	case "system", "user", "tool":
	default:
		return m, errField(o.name("role"), "must be system, developer, user, assistant or tool, not %.50q", m.Role)
	}
	return m, nil
}

// takeSaid reads the content of a message; only a user's may have images.
func takeSaid(o object, m *provider.Message) error {
	if m.Role != "user" {
		return takeContent(o, &m.Content)
	}
	return takeParts(o, &m.Content, &m.Images)
}

// takeCalls reads the tool calls of an assistant message in the client's history.
func takeCalls(o object, calls *[]provider.ToolCall) error {
	var list []json.RawMessage
	if err := take(o, "tool_calls", &list); err != nil {
		return err
	}
	for i, raw := range list {
		call := object{path: fmt.Sprintf("%s[%d]", o.name("tool_calls"), i)}
		if json.Unmarshal(raw, &call.fields) != nil || call.fields == nil {
			return errType(call.path, "an object", raw)
		}
		var c provider.ToolCall
		function, err := call.sub("function")
		for _, step := range []func() error{
			func() error { return err },
			func() error { return take(call, "id", &c.ID) },
			func() error { return take(function, "name", &c.Name) },
			func() error { return take(function, "arguments", &c.Arguments) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
		*calls = append(*calls, c)
	}
	return nil
}

// errTurns is the answer when all places are taken.
func errTurns(most int) *refusal {
	return &refusal{
		status: http.StatusTooManyRequests, code: "too_many_turns", retryAfter: retryTurns,
		message: fmt.Sprintf("%d turns run already (api.max_concurrent_turns); the message was not stored", most),
	}
}
