package tools

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gatewayd/internal/mutation"
)

// kind is what a parameter takes.
type kind string

const (
	text   kind = "string"
	number kind = "integer"
	flag   kind = "boolean"
	list   kind = "array"
	object kind = "object"
)

// param is one parameter of a tool. The schema that a model sees and the reading of what it sends come from the same line.
type param struct {
	name  string
	kind  kind
	must  bool // needed, and not empty
	about string
	one   []string // the values there are; nil = any
}

// values are a call's arguments, of the right types.
type values map[string]any

func (v values) text(name string) string           { s, _ := v[name].(string); return s }
func (v values) number(name string) int64          { n, _ := v[name].(int64); return n }
func (v values) flag(name string) bool             { b, _ := v[name].(bool); return b }
func (v values) list(name string) []string         { l, _ := v[name].([]string); return l }
func (v values) object(name string) map[string]any { o, _ := v[name].(map[string]any); return o }

// read takes a call's arguments apart. null and what is left out are the same.
func read(t Tool, raw json.RawMessage) (values, error) {
	fields := map[string]json.RawMessage{}
	if len(raw) > 0 && string(raw) != "null" {
		if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
			return nil, refuse("the arguments of "+t.Name, "are not a JSON object", "send one object with "+t.names())
		}
	}
	v := values{}
	for name, value := range fields {
		p, known := t.param(name)
		if name == "author" && mutation.On("author-from-arguments") {
			p, known = param{name: name, kind: text}, true
		}
		switch {
		case !known:
			return nil, refuse("parameter "+name, "is not one of "+t.Name, "call again with "+t.names()+" only")
		case string(value) == "null":
			continue
		}
		got, wrong := p.take(value)
		if wrong != "" {
			return nil, refuse("parameter "+name+" of "+t.Name, wrong, "send it again as "+p.wants())
		}
		v[name] = got
	}
	return v, v.complete(t)
}

func (v values) complete(t Tool) error {
	for _, p := range t.params {
		if s, is := v[p.name].(string); p.must && (v[p.name] == nil || is && s == "") {
			return refuse("parameter "+p.name+" of "+t.Name, "is missing", "call again with "+p.wants())
		}
	}
	return nil
}

// take reads one value, or says what is wrong with it.
func (p param) take(raw json.RawMessage) (value any, wrong string) {
	switch p.kind {
	case text:
		return p.takeText(raw)
	case number:
		return takeNumber(raw)
	case flag:
		return takeFlag(raw)
	case list:
		return takeList(raw)
	}
	var o map[string]any
	if json.Unmarshal(raw, &o) != nil {
		return nil, "must be a JSON object, not " + short(raw)
	}
	return o, ""
}

func (p param) takeText(raw json.RawMessage) (any, string) {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return nil, "must be a string, not " + short(raw)
	}
	s = strings.TrimSpace(s)
	if p.one != nil && s != "" && !slices.Contains(p.one, s) {
		return nil, fmt.Sprintf("cannot be %.60q", s)
	}
	return s, ""
}

// takeNumber also takes digits in a string, which some models send.
func takeNumber(raw json.RawMessage) (any, string) {
	digits := strings.Trim(string(raw), `"`)
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil {
		return nil, "must be a whole number, not " + short(raw)
	}
	return n, ""
}

// takeFlag also takes the words that models use.
func takeFlag(raw json.RawMessage) (any, string) {
	switch strings.ToLower(strings.Trim(string(raw), `"`)) {
	case "true", "1", "yes", "on":
		return true, ""
	case "false", "0", "no", "off":
		return false, ""
	}
	return nil, "must be true or false, not " + short(raw)
}

// takeList takes one string for a list of one.
func takeList(raw json.RawMessage) (any, string) {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		if one = strings.TrimSpace(one); one == "" {
			return []string{}, ""
		}
		return []string{one}, ""
	}
	var many []string
	if json.Unmarshal(raw, &many) != nil {
		return nil, "must be a list of strings, not " + short(raw)
	}
	return many, ""
}

func (p param) wants() string {
	switch {
	case p.one != nil:
		return p.name + ": one of " + strings.Join(p.one, ", ")
	case p.kind == text:
		return p.name + ": a string that is not empty"
	case p.kind == number:
		return p.name + ": a whole number"
	case p.kind == flag:
		return p.name + ": true or false"
	case p.kind == list:
		return p.name + `: a list of strings like ["a", "b"]`
	}
	return p.name + `: an object like {"files": 3}`
}

func short(raw json.RawMessage) string { return fmt.Sprintf("%.60s", raw) }
