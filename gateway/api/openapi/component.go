package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// shaped is a value that its MarshalJSON writes as another type.
type shaped interface{ JSONShape() any }

// schemasOf are the schemas of Go types by name. A type that is one of them is referred to by the others.
func schemasOf(values map[string]any) (map[string]any, error) {
	refs := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {},
		reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
	}
	for name, value := range values {
		refs[reflect.TypeOf(value)] = &jsonschema.Schema{Ref: "#/components/schemas/" + name}
	}
	all := map[string]any{}
	for name, value := range values {
		one, err := schemaOf(value, refs)
		if err != nil {
			return nil, fmt.Errorf("component %s: %w", name, err)
		}
		all[name] = one
	}
	return all, nil
}

// schemaOf is the schema of what a value is marshalled to.
func schemaOf(value any, refs map[reflect.Type]*jsonschema.Schema) (schema, error) {
	t := reflect.TypeOf(value)
	if s, is := value.(shaped); is {
		t = reflect.TypeOf(s.JSONShape())
	}
	own := maps.Clone(refs)
	delete(own, t)
	if t.Kind() == reflect.Struct {
		for _, field := range reflect.VisibleFields(t) {
			if field.Anonymous { // its fields are written among the others
				delete(own, field.Type)
			}
		}
	}
	one, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: own})
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(one)
	if err != nil {
		return nil, err
	}
	var plain schema
	if err := json.Unmarshal(raw, &plain); err != nil {
		return nil, err
	}
	return mended(plain).(schema), nil
}

// mended writes a reference that may be null as one of two, and an object's closing as false, which more readers understand than
// what the library writes.
func mended(node any) any {
	switch n := node.(type) {
	case []any:
		for i := range n {
			n[i] = mended(n[i])
		}
	case schema:
		for key := range n {
			n[key] = mended(n[key])
		}
		if ref, is := n["$ref"]; is && n["type"] != nil {
			return schema{"anyOf": []any{schema{"$ref": ref}, schema{"type": "null"}}}
		}
		if _, is := n["additionalProperties"].(schema); is && n["type"] == "object" {
			n["type"] = []any{"null", "object"} // a map, which may be nil
		}
		if not, is := n["not"].(schema); is && len(n) == 1 && len(not) == 0 {
			return false
		}
	}
	return node
}
