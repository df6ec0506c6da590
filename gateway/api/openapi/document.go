package openapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Source is what the description is made of beside its files.
type Source struct {
	Version string
	Types   map[string]any // a value of each Go type that the API answers, by the name of its component
}

// Document merges the files into one document, as encoding/json writes it. It reads no file of the disk and takes some ten
// milliseconds, so it is made once. An error is a mistake in the files.
func Document(src Source) (map[string]any, error) {
	about, nouns, err := readAll()
	if err != nil {
		return nil, err
	}
	m := &merger{about: about, refused: map[string]any{}}
	if m.schemas, err = schemasOf(src.Types); err != nil {
		return nil, err
	}
	if err := m.addShapes(nouns); err != nil {
		return nil, err
	}
	paths := map[string]any{}
	for _, op := range operations(nouns) {
		done, err := m.operation(op)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", op.method, op.path, err)
		}
		item, _ := paths[op.path].(map[string]any)
		if item == nil {
			item = map[string]any{}
			paths[op.path] = item
		}
		item[op.method] = done
	}
	info := maps.Clone(about.Info)
	info["version"] = src.Version
	return map[string]any{
		"openapi": "3.1.0", "info": info, "servers": []any{map[string]any{"url": "/"}}, "tags": tagsOf(nouns), "paths": paths,
		"components": map[string]any{"schemas": m.schemas, "responses": m.refused, "securitySchemes": securitySchemes},
	}, nil
}

// securitySchemes are the ways in. A request over the daemon's own socket needs none.
var securitySchemes = map[string]any{
	"key":    map[string]any{"type": "http", "scheme": "bearer", "description": "an API key"},
	"cookie": map[string]any{"type": "apiKey", "in": "cookie", "name": "gatewayd", "description": "what a login leaves in a browser"},
}

func tagsOf(nouns map[string]noun) []any {
	var tags []any
	for _, name := range sortedKeys(nouns) {
		tags = append(tags, map[string]any{"name": name, "description": nouns[name].About})
	}
	return tags
}

// merger holds what operations refer to.
type merger struct {
	about   about
	schemas map[string]any
	refused map[string]any // refusals that operations share, by name
	shapes  shapes
}

// addShapes adds the shapes of the files to those of the Go types.
func (m *merger) addShapes(nouns map[string]noun) error {
	m.shapes.known = map[string]bool{}
	for name := range m.schemas {
		m.shapes.known[name] = true
	}
	for _, n := range nouns {
		for name := range n.Shapes {
			if m.shapes.known[name] {
				return fmt.Errorf("there are two components %s", name)
			}
			m.shapes.known[name] = true
		}
	}
	for _, n := range nouns {
		for name, notation := range n.Shapes {
			shape, err := m.shapes.of(notation)
			if err != nil {
				return fmt.Errorf("component %s: %w", name, err)
			}
			m.schemas[name] = shape
		}
	}
	return nil
}

// operation writes one operation out.
func (m *merger) operation(op operation) (map[string]any, error) {
	done := map[string]any{"operationId": op.ID, "summary": op.Summary, "tags": []string{op.tag}}
	if op.ID == "" || op.Summary == "" {
		return nil, fmt.Errorf("id or summary is missing")
	}
	done["security"] = []any{}
	if op.Scope != "" {
		if m.about.Scopes[op.Scope] == "" {
			return nil, fmt.Errorf("there is no scope %s", op.Scope)
		}
		done["security"] = []any{map[string]any{"key": []string{op.Scope}}, map[string]any{"cookie": []string{op.Scope}}}
		done["x-scope"] = op.Scope
	}
	parameters, err := m.parameters(op)
	if err != nil {
		return nil, err
	}
	if len(parameters) > 0 {
		done["parameters"] = parameters
	}
	if body, err := m.requestBody(op); err != nil {
		return nil, err
	} else if body != nil {
		done["requestBody"] = body
	}
	done["responses"], err = m.responses(op)
	return done, err
}

// parameters are those of the path, the query and the headers.
func (m *merger) parameters(op operation) ([]any, error) {
	var list []any
	add := func(place, key string, notation any) error {
		shape, err := m.shapes.of(notation)
		name, optional := strings.CutSuffix(key, "?")
		one := map[string]any{"name": name, "in": place, "required": !optional, "schema": shape}
		if remark, is := shape["description"]; is {
			one["description"] = remark
			delete(shape, "description")
		}
		list = append(list, one)
		return err
	}
	for _, name := range op.pathParameters() {
		notation, known := m.about.Parameters[name]
		if !known {
			return nil, fmt.Errorf("the parameter %s is not told of", name)
		}
		if err := add("path", name, notation); err != nil {
			return nil, err
		}
	}
	for _, key := range sortedKeys(op.Query) {
		if err := add("query", key, op.Query[key]); err != nil {
			return nil, err
		}
	}
	headers := maps.Clone(op.Headers)
	if op.changes() && op.Scope != "" {
		headers = maps.Clone(m.about.Headers)
		maps.Copy(headers, op.Headers)
	}
	for _, key := range sortedKeys(headers) {
		if err := add("header", key, headers[key]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// requestBody is nil where there is none.
func (m *merger) requestBody(op operation) (map[string]any, error) {
	content := map[string]any{}
	for _, kind := range op.Upload {
		content[kind] = map[string]any{}
	}
	if op.Body != nil {
		shape, err := m.shapes.of(op.Body)
		if err != nil {
			return nil, err
		}
		content[mediaJSON] = map[string]any{"schema": shape}
	}
	if len(content) == 0 {
		return nil, nil
	}
	return map[string]any{"required": !op.Free, "content": content}, nil
}

const (
	mediaJSON   = "application/json"
	mediaStream = "text/event-stream"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func clone(s schema) schema { return maps.Clone(s) }
