package openapi

import (
	"fmt"
	"strconv"
	"strings"
)

// schema is a JSON Schema as it is written into the document.
type schema = map[string]any

// shapes turns the notation into schemas. Known are the names that may be referred to.
type shapes struct{ known map[string]bool }

// types are the words of the notation that stand for a type.
var types = map[string]schema{
	"string": {"type": "string"}, "integer": {"type": "integer"}, "number": {"type": "number"}, "boolean": {"type": "boolean"},
	"null": {"type": "null"}, "any": {}, "object": {"type": "object"}, "time": {"type": "string", "format": "date-time"},
	"true": {"type": "boolean", "enum": []any{true}}, "false": {"type": "boolean", "enum": []any{false}},
}

// of reads one shape.
func (s shapes) of(notation any) (schema, error) {
	switch n := notation.(type) {
	case nil:
		return schema{"type": "null"}, nil
	case string:
		return s.words(n)
	case bool:
		return schema{"type": "boolean", "enum": []any{n}}, nil
	case []any:
		if len(n) != 1 {
			return nil, fmt.Errorf("a list names the one shape of its items, not %d", len(n))
		}
		items, err := s.of(n[0])
		return schema{"type": "array", "items": items}, err
	case map[string]any:
		return s.object(n)
	}
	return nil, fmt.Errorf("%v is no shape", notation)
}

// object reads the fields of an object.
func (s shapes) object(fields map[string]any) (schema, error) {
	properties, required, rest := schema{}, []string{}, any(false)
	for _, key := range sortedKeys(fields) {
		shape, err := s.of(fields[key])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		name, optional := strings.CutSuffix(key, "?")
		switch {
		case key == "*":
			rest = shape
			continue
		case !optional:
			required = append(required, name)
		}
		properties[name] = shape
	}
	whole := schema{"type": "object", "properties": properties, "additionalProperties": rest}
	if len(required) > 0 {
		whole["required"] = required
	}
	return whole, nil
}

// words reads a shape that is written in words.
func (s shapes) words(text string) (schema, error) {
	text, remark, _ := strings.Cut(text, " — ")
	var kinds []schema
	var literals []any
	for word := range strings.SplitSeq(text, " | ") {
		one, err := s.word(strings.TrimSpace(word))
		if err != nil {
			return nil, err
		}
		if literal, is := one["const"]; is {
			literals = append(literals, literal)
			continue
		}
		kinds = append(kinds, one)
	}
	switch {
	case len(literals) == 1 && len(kinds) == 0:
		kinds = []schema{{"const": literals[0]}}
	case len(literals) > 0:
		kinds = append([]schema{{"type": "string", "enum": literals}}, kinds...)
	}
	whole := kinds[0]
	if len(kinds) > 1 {
		whole = anyOf(kinds)
	}
	if remark != "" {
		whole["description"] = remark
	}
	return whole, nil
}

// anyOf is one of several; types alone are written as a list of types, which more readers understand.
func anyOf(kinds []schema) schema {
	var names []any
	for _, kind := range kinds {
		if name, is := kind["type"].(string); is && len(kind) == 1 {
			names = append(names, name)
		}
	}
	if len(names) == len(kinds) {
		return schema{"type": names}
	}
	return schema{"anyOf": kinds}
}

// word reads a type, a component, or a word that stands for itself.
func (s shapes) word(text string) (schema, error) {
	name, bounds, bounded := strings.Cut(text, " ")
	kind, known := types[name]
	switch {
	case known && bounded:
		return within(name, bounds)
	case known:
		return clone(kind), nil
	case bounded || text == "":
		return nil, fmt.Errorf("%q is no shape", text)
	case s.known[text]:
		return schema{"$ref": "#/components/schemas/" + text}, nil
	case strings.ToLower(text[:1]) != text[:1]:
		return nil, fmt.Errorf("there is no component %s", text)
	}
	return schema{"const": text}, nil
}

// within reads bounds: of a number, or of a string's length.
func within(kind, bounds string) (schema, error) {
	least, most, _ := strings.Cut(bounds, "..")
	names := [2]string{"minimum", "maximum"}
	if kind == "string" {
		names = [2]string{"minLength", "maxLength"}
	}
	whole := clone(types[kind])
	for i, text := range []string{least, most} {
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q are no bounds", bounds)
		}
		whole[names[i]] = n
	}
	return whole, nil
}
