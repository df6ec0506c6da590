package provider

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// What a server may not take. The first are parameters that we add to a request and are named as on the wire; the others are forms.
const (
	paramUsage     = "stream_options"
	paramMax       = "max_tokens"
	paramMaxNew    = "max_completion_tokens"
	paramTemp      = "temperature"
	paramTopP      = "top_p"
	paramStop      = "stop"
	paramStopSeq   = "stop_sequences"
	paramSeed      = "seed"
	paramEffort    = "reasoning_effort"
	paramProgress  = "return_progress"
	paramThinking  = "thinking"
	paramCache     = "cache_control"
	paramExtra     = "extra_content"
	paramOutput    = "output_config"
	paramDetails   = "reasoning_details"
	formEmpty      = "empty content beside tool calls"
	formSystem     = "the system role"
	formRoles      = "two rows of one role"
	formSigned     = "signed thinking"
	formConstraint = "patterns and bounds in tool schemas"
	formKeywords   = "keywords in tool schemas"
	formImages     = "images"
	formIDs        = "call ids of other servers"
	formBare       = "answers without their reasoning"
	formUnsigned   = "calls without a signature"
	formBudget     = "thinking by a budget"
	formUndetailed = "calls without reasoning details"
	formToolless   = "calls without tools beside them"
)

// manner is how a server wants to be asked, as far as its refusals taught us. The zero value is how everybody is asked at first. It is a value:
// whoever changes one works on a copy.
type manner struct {
	not       map[string]bool // what it refuses
	keywords  map[string]bool // schema keywords that it named, beyond the usual ones
	maxOutput int             // the most tokens that it writes in one answer; 0 unknown
}

func (m manner) copy() manner {
	m.not, m.keywords = maps.Clone(m.not), maps.Clone(m.keywords)
	if m.not == nil {
		m.not = map[string]bool{}
	}
	if m.keywords == nil {
		m.keywords = map[string]bool{}
	}
	return m
}

// join adds what another call has learned meanwhile.
func (m manner) join(other manner) manner {
	m = m.copy()
	maps.Copy(m.not, other.not)
	maps.Copy(m.keywords, other.keywords)
	if other.maxOutput > 0 && (m.maxOutput == 0 || other.maxOutput < m.maxOutput) {
		m.maxOutput = other.maxOutput
	}
	return m
}

// refuses lists it for people.
func (m manner) refuses() []string {
	return slices.Sorted(maps.Keys(m.not))
}

// refusalAge is how long a refusal is remembered over restarts: a server may have learned to take it.
const refusalAge = 30 * 24 * time.Hour

// mannerOf is what an earlier process learned, unless that is long ago.
func mannerOf(learned Learned, now time.Time) (manner, time.Time) {
	if now.Sub(learned.RefusedAt) > refusalAge {
		return manner{}, time.Time{}
	}
	m := manner{maxOutput: learned.MaxOutput}.copy()
	for _, what := range learned.Refuses {
		m.not[what] = true
	}
	for _, word := range learned.Keywords {
		m.keywords[word] = true
	}
	return m, learned.RefusedAt
}

// into adds it to what is kept.
func (m manner) into(learned *Learned, at time.Time) {
	learned.Refuses, learned.Keywords = m.refuses(), slices.Sorted(maps.Keys(m.keywords))
	learned.MaxOutput, learned.RefusedAt = m.maxOutput, at
}

// output bounds a wish for so many tokens.
func (m manner) output(want int) int {
	if m.maxOutput > 0 && want > m.maxOutput {
		return m.maxOutput
	}
	return want
}

// shape brings the rows into the order that strict chat templates ask for. It changes nothing for a server that did not ask.
func (m manner) shape(system string, messages []Message) (string, []Message) {
	messages = m.rows(messages)
	if m.not[formSystem] && system != "" {
		system, messages = "", withSystemInUser(system, messages)
	}
	if m.not[formRoles] {
		messages = alternating(messages)
	}
	return system, messages
}

// rows are the messages without what a server does not take in any of them.
func (m manner) rows(messages []Message) []Message {
	messages = m.pictures(messages)
	if m.not[formIDs] {
		messages = shortIDs(messages)
	}
	return messages
}

// pictures puts captions in the place of pictures for a server that takes none.
func (m manner) pictures(messages []Message) []Message {
	if !m.not[formImages] || !hasPictures(messages) {
		return messages
	}
	messages = slices.Clone(messages)
	for i := range messages {
		messages[i] = messages[i].Captioned()
	}
	return messages
}

func hasPictures(messages []Message) bool {
	return slices.ContainsFunc(messages, func(m Message) bool { return len(m.Images) > 0 })
}

// withSystemInUser puts the system text before the first user row's.
func withSystemInUser(system string, messages []Message) []Message {
	messages = slices.Clone(messages)
	for i, message := range messages {
		if role(message) == "user" {
			message = plain(message)
			message.Content = join(system, message.Content)
			messages[i] = message
			return messages
		}
	}
	return append([]Message{{Role: "user", Content: system}}, messages...)
}

// alternating joins neighbours of one role. A user's row behind a tool's result goes into that result: templates that count roles
// want an answer of the assistant between the two.
func alternating(messages []Message) []Message {
	var out []Message
	for _, message := range messages {
		message = plain(message)
		if len(out) == 0 {
			out = append(out, message)
			continue
		}
		last := &out[len(out)-1]
		switch {
		case message.Role == "user" && last.Role == "tool":
			last.Content = join(last.Content, "[The user writes:]\n"+message.Captioned().Content)
		case message.Role == last.Role && message.Role != "tool" && len(last.ToolCalls) == 0:
			last.Content = join(last.Content, message.Content)
			last.Images = append(slices.Clip(last.Images), message.Images...)
			last.ToolCalls, last.Thinking, last.Reasoning = message.ToolCalls, message.Thinking, join(last.Reasoning, message.Reasoning)
		default:
			out = append(out, message)
		}
	}
	return out
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

func role(message Message) string {
	if len(message.Raw) > 0 {
		return looseText(looseObject(message.Raw)["role"])
	}
	return message.Role
}

// plain reads a row's raw bytes into its fields, for servers to which they cannot be sent as they are.
func plain(message Message) Message {
	if len(message.Raw) == 0 {
		return message
	}
	fields := looseObject(message.Raw)
	out := Message{
		Role: looseText(fields["role"]), Content: looseText(fields["content"]), ToolCallID: looseText(fields["tool_call_id"]), Name: looseText(fields["name"]),
		Thinking: message.Thinking, Reasoning: message.Reasoning,
	}
	for _, raw := range looseList(fields["tool_calls"]) {
		call := looseObject(raw)
		function := looseObject(call["function"])
		out.ToolCalls = append(out.ToolCalls, ToolCall{ID: looseText(call["id"]), Name: looseText(function["name"]), Arguments: argumentText(function["arguments"])})
	}
	return out
}

// schema takes out of a tool's schema what the server refuses. Bytes that hold nothing of it stay as they are.
func (m manner) schema(raw json.RawMessage) json.RawMessage {
	if !m.not[formConstraint] && !m.not[formKeywords] {
		return raw
	}
	var value any
	if json.Unmarshal(raw, &value) != nil || !m.prune(value, false) {
		return raw
	}
	pruned, err := json.Marshal(value)
	if err != nil {
		return raw
	}
	return pruned
}

// Keywords that converters of schemas stumble over. Without them a schema says less and still the truth: the tool checks for itself.
var (
	constraints = words("pattern format minLength maxLength minItems maxItems uniqueItems minimum maximum exclusiveMinimum exclusiveMaximum multipleOf")
	unusual     = words("$schema $id $comment additionalProperties propertyNames patternProperties unevaluatedProperties exclusiveMinimum exclusiveMaximum " +
		"const default examples contentEncoding contentMediaType dependentRequired dependentSchemas if then else not")
	needed = words("type properties items required enum description")
)

func words(list string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(list) {
		set[word] = true
	}
	return set
}

// prune removes keywords in place and reports whether there were any. Below "properties" the keys are names and not keywords.
func (m manner) prune(value any, names bool) (changed bool) {
	switch value := value.(type) {
	case map[string]any:
		for key, below := range value {
			if !names && m.refused(key) {
				if only, ok := below.(string); ok && key == "const" && value["enum"] == nil {
					value["enum"] = []any{only}
				}
				delete(value, key)
				changed = true
				continue
			}
			if names || key != "enum" && key != "required" {
				changed = m.prune(below, !names && (key == "properties" || key == "$defs" || key == "definitions")) || changed
			}
		}
	case []any:
		for _, below := range value {
			changed = m.prune(below, false) || changed
		}
	}
	return changed
}

func (m manner) refused(keyword string) bool {
	if needed[keyword] {
		return false
	}
	return m.not[formConstraint] && constraints[keyword] || m.not[formKeywords] && (unusual[keyword] || m.keywords[keyword])
}
