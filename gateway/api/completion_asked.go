package api

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"gatewayd/gateway"
)

// refusedIn are the parameters of a chat request whose answer a client would read in a form that it does not have. What colours an
// answer (temperature, stop and so on) is passed on, see takeWishes; what else there is (tools and others) is passed over, and docs/api.md says so.
var refusedIn = map[string]struct {
	fine func(raw json.RawMessage) bool
	why  string
}{
	"n":               {isOneOf("1"), "must be 1; there is one answer to a message"},
	"best_of":         {isOneOf("1"), "must be 1; there is one answer to a message"},
	"logprobs":        {isOneOf("false", "0"), "must be false; probabilities are not known here"},
	"top_logprobs":    {isOneOf("0"), "must be 0; probabilities are not known here"},
	"echo":            {isOneOf("false"), "must be false; an answer does not repeat the message"},
	"response_format": {isPlainFormat, "must be of type text; no other form of an answer is promised here"},
	"modalities":      {isOneOf(`["text"]`, "[]"), "must be [\"text\"]; an answer is text"},
	"audio":           {isOneOf(), "is not read here; an answer is text"},
	"tool_choice":     {isFreeChoice, "must be auto or none; a client's own tools are not called here"},
	"function_call":   {isFreeChoice, "must be auto or none; a client's own functions are not called here"},
}

// checkAsked refuses what would be answered otherwise than it was asked for.
func (o object) checkAsked() error {
	for _, field := range slices.Sorted(maps.Keys(o.fields)) {
		rule, known := refusedIn[field]
		if !known {
			for name := range refusedIn {
				if strings.EqualFold(name, field) {
					return o.spelt(name)
				}
			}
			continue
		}
		if o.has(field) && !rule.fine(o.fields[field]) {
			e := errField(o.name(field), "%s", rule.why)
			if field != "n" {
				e.code = "unsupported_parameter"
			}
			return e
		}
	}
	return nil
}

func isOneOf(values ...string) func(json.RawMessage) bool {
	return func(raw json.RawMessage) bool {
		text := strings.Join(strings.Fields(string(raw)), "")
		for _, value := range values {
			if text == value {
				return true
			}
		}
		return false
	}
}

func isPlainFormat(raw json.RawMessage) bool {
	var format struct{ Type string }
	return json.Unmarshal(raw, &format) == nil && format.Type == "text"
}

func isFreeChoice(raw json.RawMessage) bool { return isOneOf(`"auto"`, `"none"`)(raw) }

// sideTask is how Open WebUI begins what it asks beside a conversation (a title, tags, follow-ups), with the conversation in it.
const sideTask, sideHistory = "### Task:", "<chat_history>"

// isSideTask tells a request that a chat program makes for itself from what a person says: it is alone in its body, begins like a task
// and carries the conversation as text.
func (c completion) isSideTask() bool {
	return len(c.History) == 0 && strings.HasPrefix(c.Text, sideTask) && strings.Contains(c.Text, sideHistory)
}

// aside is such a request as it is answered: in a hidden session of its own, which no conversation hears of, and without tools.
func aside(text string) gateway.Say {
	return gateway.Say{Session: "side-" + newID(), Source: gateway.SourceAPI, Text: text, Hidden: true, Bare: true}
}
