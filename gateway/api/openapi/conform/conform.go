// Package conform holds what an API answers against its own description, for tests.
//
// A Checker is made of a document of OpenAPI 3.1 as it is served. It knows an answer by its method, path and status, and refuses a
// status, a media type, an event, a field or an error's code that the document does not tell of. It is safe for concurrent use.
package conform

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

// Document is as much of a description as an answer is held against.
type Document struct {
	Paths      map[string]map[string]Operation `json:"paths"`
	Components struct {
		Schemas   map[string]json.RawMessage `json:"schemas"`
		Responses map[string]Response        `json:"responses"`
	} `json:"components"`
}

// Operation is one method of a path.
type Operation struct {
	ID          string      `json:"operationId"`
	Scope       string      `json:"x-scope"`
	Parameters  []Parameter `json:"parameters"`
	RequestBody struct {
		Required bool             `json:"required"`
		Content  map[string]Media `json:"content"`
	} `json:"requestBody"`
	Responses map[string]Response `json:"responses"`
}

// Parameter is a part of the path, the query or the header.
type Parameter struct {
	Name     string            `json:"name"`
	In       string            `json:"in"`
	Required bool              `json:"required"`
	Schema   jsonschema.Schema `json:"schema"`
}

// Response is what one status means.
type Response struct {
	Ref     string           `json:"$ref"` // to one of the components
	Content map[string]Media `json:"content"`
	Codes   []string         `json:"x-codes"`
}

// Media is the shape of a body of one media type.
type Media struct {
	Schema json.RawMessage            `json:"schema"`
	Events map[string]json.RawMessage `json:"x-events"`
}

// Checker is a document that was read.
type Checker struct {
	Document
	mu      sync.Mutex
	schemas map[string]*jsonschema.Resolved // by their text
}

// New reads a document.
func New(document []byte) (*Checker, error) {
	c := &Checker{schemas: map[string]*jsonschema.Resolved{}}
	if err := json.Unmarshal(document, &c.Document); err != nil {
		return nil, fmt.Errorf("read the description: %w", err)
	}
	for _, methods := range c.Paths {
		for _, op := range methods {
			for status, response := range op.Responses {
				if name, is := strings.CutPrefix(response.Ref, "#/components/responses/"); is {
					op.Responses[status] = c.Components.Responses[name]
				}
			}
		}
	}
	return c, nil
}

// Find gives the template of a path and its operation. A template with fewer parameters goes before one with more.
func (c *Checker) Find(method, path string) (string, Operation, bool) {
	best, found := "", Operation{}
	for template, methods := range c.Paths {
		op, there := methods[strings.ToLower(method)]
		if there && matches(template, path) && (best == "" || strings.Count(template, "{") < strings.Count(best, "{")) {
			best, found = template, op
		}
	}
	return best, found, best != ""
}

func matches(template, path string) bool {
	want, have := strings.Split(template, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, have, func(want, have string) bool {
		return want == have || strings.HasPrefix(want, "{") && have != ""
	})
}

// Answer checks one whole answer. An answer to a path or a method that is not described is only known where it is a refusal.
func (c *Checker) Answer(method, path string, status int, header http.Header, body []byte) error {
	template, op, known := c.Find(method, path)
	if !known {
		return c.elsewhere(status, header, body)
	}
	at := fmt.Sprintf("%s %s: %d", method, template, status)
	response, there := op.Responses[strconv.Itoa(status)]
	if !there {
		return fmt.Errorf("%s is not described: %.300s", at, body)
	}
	if len(body) == 0 {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	media, there := response.media(kind)
	var err error
	switch {
	case !there:
		err = fmt.Errorf("an answer of type %q is not described", kind)
	case kind == "text/event-stream":
		err = c.stream(media, body)
	case kind == "application/json":
		err = c.whole(response, media, body)
	}
	if err != nil {
		return fmt.Errorf("%s: %w in %.1000s", at, err, body)
	}
	return nil
}

func (r Response) media(kind string) (Media, bool) {
	if media, there := r.Content[kind]; there {
		return media, true
	}
	media, there := r.Content["*/*"]
	return media, there
}

// elsewhere is an answer where nothing is described: a refusal, or no answer of the API.
func (c *Checker) elsewhere(status int, header http.Header, body []byte) error {
	if status < 400 || !strings.HasPrefix(header.Get("Content-Type"), "application/json") {
		return nil
	}
	return c.Valid(json.RawMessage(`{"$ref":"#/components/schemas/Error"}`), body)
}

// whole checks an answer in one piece, and the code of a refusal.
func (c *Checker) whole(response Response, media Media, body []byte) error {
	if err := c.Valid(media.Schema, body); err != nil {
		return err
	}
	var refusal struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &refusal) == nil && refusal.Error.Code != "" && !slices.Contains(response.Codes, refusal.Error.Code) {
		return fmt.Errorf("the code %s is not described", refusal.Error.Code)
	}
	return nil
}

// stream checks each event that came whole.
func (c *Checker) stream(media Media, body []byte) error {
	if media.Events == nil {
		return nil
	}
	events := strings.Split(string(body), "\n\n")
	for _, event := range events[:len(events)-1] {
		name, data := "message", ""
		for line := range strings.SplitSeq(event, "\n") {
			field, value, _ := strings.Cut(line, ": ")
			switch field {
			case "event":
				name = value
			case "data":
				data = value
			}
		}
		if data == "" || data == "[DONE]" {
			continue
		}
		schema, there := media.Events[name]
		if !there {
			return fmt.Errorf("the event %s is not described", name)
		}
		if err := c.Valid(schema, []byte(data)); err != nil {
			return fmt.Errorf("event %s: %w", name, err)
		}
	}
	return nil
}

// Valid checks JSON against a schema of the document.
func (c *Checker) Valid(schema json.RawMessage, body []byte) error {
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return fmt.Errorf("no JSON: %w", err)
	}
	resolved, err := c.resolved(schema)
	if err != nil {
		return err
	}
	return resolved.Validate(value)
}

// resolved makes a schema whole with the components that it may refer to.
func (c *Checker) resolved(schema json.RawMessage) (*jsonschema.Resolved, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.schemas[string(schema)]; known != nil {
		return known, nil
	}
	text, err := json.Marshal(map[string]any{"$ref": "#/$defs/this", "$defs": c.definitions(schema)})
	if err != nil {
		return nil, err
	}
	var whole jsonschema.Schema
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), "#/components/schemas/", "#/$defs/")), &whole); err != nil {
		return nil, fmt.Errorf("read a schema: %w", err)
	}
	resolved, err := whole.Resolve(nil)
	if err == nil {
		c.schemas[string(schema)] = resolved
	}
	return resolved, err
}

// definitions are a schema and the components that it refers to, directly or not.
func (c *Checker) definitions(schema json.RawMessage) map[string]json.RawMessage {
	all := map[string]json.RawMessage{"this": schema}
	todo := []json.RawMessage{schema}
	for len(todo) > 0 {
		parts := strings.Split(string(todo[0]), `"#/components/schemas/`)
		todo = todo[1:]
		for _, part := range parts[1:] {
			name, _, _ := strings.Cut(part, `"`)
			if component, there := c.Components.Schemas[name]; there && all[name] == nil {
				all[name] = component
				todo = append(todo, component)
			}
		}
	}
	return all
}
