package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// readBody takes a whole JSON body within the bound. A length that is announced is refused before a byte is read.
func (s *server) readBody(r *http.Request) ([]byte, error) {
	if err := checkContentType(r.Header); err != nil {
		return nil, err
	}
	if r.ContentLength > s.MaxBody {
		return nil, errTooLarge(s.MaxBody)
	}
	body, err := s.readAll(r.Body)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(body) {
		return nil, &refusal{status: http.StatusBadRequest, code: "invalid_encoding", message: "the body is not UTF-8"}
	}
	return body, nil
}

// readAll reads a body to its end within the bound.
func (s *server) readAll(from io.Reader) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, io.NopCloser(from), s.MaxBody))
	if err != nil {
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, errTooLarge(tooLarge.Limit)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, &refusal{status: http.StatusRequestTimeout, code: "body_timeout", message: fmt.Sprintf("the body did not arrive within %v; nothing of it was taken", s.BodyTime), cause: err}
		}
		return nil, &refusal{status: http.StatusBadRequest, code: "body_unreadable", message: "the body ended before its announced length", cause: err}
	}
	return body, nil
}

// checkContentType wants JSON. A form's type is what a web page can send without asking, and what curl sends when nobody told it.
func checkContentType(h http.Header) error {
	unsupported := func(format string, args ...any) error {
		return &refusal{status: http.StatusUnsupportedMediaType, code: "unsupported_media_type", message: fmt.Sprintf(format, args...) + "; send `Content-Type: application/json`"}
	}
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return unsupported("the Content-Encoding %.50q is not read here", encoding)
	}
	given := h.Get("Content-Type")
	if given == "" {
		return nil
	}
	kind, params, err := mime.ParseMediaType(given)
	if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return unsupported("the Content-Type %.100q is no JSON", given)
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return unsupported("the charset %.50q is not read here", charset)
	}
	return nil
}

// optionalBody reads the body of a request that may have none.
func (s *server) optionalBody(r *http.Request) (object, error) {
	if r.ContentLength == 0 {
		return object{fields: map[string]json.RawMessage{}, asked: map[string]bool{}}, nil
	}
	return s.jsonBody(r)
}

// object is a JSON object whose fields are read one by one, so that a wrong type is told with the field's name. In OpenAI's part
// unknown fields are nobody's business, because clients send many; our own routes refuse them by done.
type object struct {
	path   string
	fields map[string]json.RawMessage
	asked  map[string]bool // fields that take was asked for
}

// parseObject reads a body that must be one object and nothing after it.
func parseObject(body []byte) (object, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return object{}, &refusal{status: http.StatusBadRequest, code: "invalid_json", message: "the body is empty; a JSON object is wanted"}
	}
	var fields map[string]json.RawMessage
	if bytes.HasPrefix(body, []byte("\uFEFF")) {
		return object{}, &refusal{status: http.StatusBadRequest, code: "invalid_encoding", message: "the body begins with a byte order mark; send it without"}
	}
	if err := json.Unmarshal(body, &fields); err != nil {
		message := "the body is no JSON object"
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			message = fmt.Sprintf("the body is no JSON: %v (at byte %d)", syntax, syntax.Offset)
		}
		return object{}, &refusal{status: http.StatusBadRequest, code: "invalid_json", message: message}
	}
	if fields == nil {
		return object{}, &refusal{status: http.StatusBadRequest, code: "invalid_json", message: "the body is null; a JSON object is wanted"}
	}
	if err := strict(body); err != nil {
		return object{}, err
	}
	return object{fields: fields, asked: map[string]bool{}}, nil
}

func (o object) name(field string) string {
	if o.path == "" {
		return field
	}
	return o.path + "." + field
}

func (o object) has(field string) bool {
	raw, there := o.fields[field]
	return there && string(raw) != "null"
}

// take reads a field into dst. A missing field and null leave it alone.
func take[T any](o object, field string, dst *T) error {
	if o.asked != nil {
		o.asked[field] = true
	}
	if err := o.spelt(field); err != nil {
		return err
	}
	if !o.has(field) {
		return nil
	}
	var value T
	if err := json.Unmarshal(o.fields[field], &value); err != nil {
		return errType(o.name(field), want(value), o.fields[field])
	}
	*dst = value
	return nil
}

// spelt refuses a field in other letters than ours: it would be passed over, and its reader believe that it was heard.
func (o object) spelt(field string) error {
	for given := range o.fields {
		if given != field && strings.EqualFold(given, field) {
			e := errField(o.name(given), "is to be written %s", field)
			e.code = "unknown_field"
			return e
		}
	}
	return nil
}

// into reads one field of a request of our own by read.
func into[T any](field string, dst *T) func(object) error {
	return func(o object) error { return take(o, field, dst) }
}

// read reads the fields that a request of our own may have, and refuses any other.
func (o object) read(fields ...func(object) error) error {
	for _, field := range fields {
		if err := field(o); err != nil {
			return err
		}
	}
	return o.done()
}

// done refuses fields that nobody asked for: one that is misspelt, or that cannot be set, would be dropped in silence.
func (o object) done() error {
	for _, field := range slices.Sorted(maps.Keys(o.fields)) {
		if !o.asked[field] {
			e := errField(o.name(field), "is not a field of this request; it knows %s", strings.Join(slices.Sorted(maps.Keys(o.asked)), ", "))
			e.code = "unknown_field"
			return e
		}
	}
	return nil
}

// sub reads a field that is an object.
func (o object) sub(field string) (object, error) {
	inner := object{path: o.name(field)}
	err := take(o, field, &inner.fields)
	return inner, err
}

func errType(param, wanted string, raw json.RawMessage) *refusal {
	e := errField(param, "must be %s, not %s", wanted, jsonKind(raw))
	e.code = "invalid_type"
	return e
}

// want names a Go type as a JSON writer knows it.
func want(value any) string { return kindOf(reflect.TypeOf(value)) }

func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		switch t.Elem().Kind() {
		case reflect.String:
			return "a list of strings"
		case reflect.Map:
			return "a list of objects"
		}
		return "a list"
	}
	return "an object"
}

func jsonKind(raw json.RawMessage) string {
	text := strings.TrimSpace(string(raw))
	if text == "" {
		return "nothing"
	}
	switch text[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "the number " + fmt.Sprintf("%.40s", text)
}
