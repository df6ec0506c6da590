package api

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"gatewayd/gateway"
	"gatewayd/gateway/api/openapi/conform"
	"gatewayd/sessiondb"
)

// world has one of each thing that a path can name.
type world struct {
	http.Handler
	names map[string]string
}

func newWorld(t *testing.T) world {
	t.Helper()
	boards := newShelf(t)
	h := newHouse(t, func(o *Options) {
		o.Boards, o.Dispatch, o.Notices, o.Settings = boards, &bell{}, knows("ops"), noSettings{}
		o.Approvals = gateway.NewApprovals(o.Sessions.(*sessiondb.Store), time.Minute, slog.New(slog.DiscardHandler))
	})
	w := world{h.Config.Handler, map[string]string{"board": "plans", "session": "s", "run": "1", "model": modelName, "approval": "a1", "rule": "r"}}
	wants(t, w, "POST", "/api/boards", `{"slug":"plans"}`, http.StatusCreated)
	w.names["task"] = newCard(t, w, `{"title":"first","assignee":"dev"}`)
	wants(t, w, "POST", "/api/sessions", `{"id":"s"}`, http.StatusCreated)
	wants(t, w, "POST", "/api/boards/plans/tasks/"+w.names["task"]+"/claim", "", http.StatusOK)
	made := wants(t, w, "POST", "/api/boards/plans/subscriptions", `{"target":"webhook","address":"ops"}`, http.StatusCreated)
	w.names["subscription"] = fmt.Sprint(made["subscription"].(map[string]any)["id"])
	made = wants(t, w, "POST", "/api/boards/plans/tasks/"+w.names["task"]+"/attachments?filename=a.txt", `"x"`, http.StatusCreated)
	w.names["attachment"] = fmt.Sprint(made["attachment"].(map[string]any)["id"])
	return w
}

// at is a path with something that is there in each of its places.
func (w world) at(template string) string {
	for name, value := range w.names {
		template = strings.ReplaceAll(template, "{"+name+"}", value)
	}
	return template
}

// each visits every operation that is described.
func each(visit func(method, template string, op conform.Operation)) {
	document := describing().Document
	for _, template := range slices.Sorted(maps.Keys(document.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(document.Paths[template])) {
			visit(strings.ToUpper(method), template, document.Paths[template][method])
		}
	}
}

// bodyOf is the schema of an operation's JSON body, or nothing.
func bodyOf(t *testing.T, op conform.Operation) *jsonschema.Schema {
	t.Helper()
	raw := op.RequestBody.Content["application/json"].Schema
	if raw == nil {
		return nil
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	if name, is := strings.CutPrefix(schema.Ref, "#/components/schemas/"); is {
		schema = jsonschema.Schema{}
		if err := json.Unmarshal(describing().Components.Schemas[name], &schema); err != nil {
			t.Fatal(err)
		}
	}
	return &schema
}

// typesOf are the types that a property may have; none means any.
func typesOf(s *jsonschema.Schema) []string {
	switch {
	case s.Type != "":
		return []string{s.Type}
	case s.Const != nil || s.Enum != nil:
		return []string{"string"}
	case s.AnyOf != nil:
		var all []string
		for _, one := range s.AnyOf {
			all = append(all, typesOf(one)...)
		}
		return all
	}
	return s.Types
}

// sample is a value that a property may have.
func sample(s *jsonschema.Schema) any {
	if s.Enum != nil {
		return s.Enum[0]
	}
	switch kind := typesOf(s); {
	case slices.Contains(kind, "string"):
		return "x"
	case slices.Contains(kind, "integer"):
		return 1
	case slices.Contains(kind, "array"):
		return []any{sample(s.Items)}
	}
	return map[string]any{}
}

// wrong is a value of a type that a property may not have; nil where it may have any.
func wrong(s *jsonschema.Schema) any {
	kind := typesOf(s)
	switch {
	case len(kind) == 0:
		return nil
	case !slices.Contains(kind, "boolean"):
		return true
	}
	return []any{1}
}

// least is a body with what a request needs.
func least(s *jsonschema.Schema) map[string]any {
	body := map[string]any{}
	for _, name := range s.Required {
		body[name] = sample(s.Properties[name])
	}
	return body
}

func bodyWith(body map[string]any, name string, value any) string {
	body = maps.Clone(body)
	body[name] = value
	return mustJSON(body)
}

func TestEveryBodyKnowsTheFieldsThatAreDescribedAndNoOther(t *testing.T) {
	w := newWorld(t)
	tried := 0
	each(func(method, template string, op conform.Operation) {
		schema := bodyOf(t, op)
		if schema == nil || schema.AdditionalProperties == nil || template == "/login" {
			return
		}
		path, body := w.at(template), least(schema)
		closed := schema.AdditionalProperties.Not != nil
		if closed {
			inner := refused(t, ask(w, method, path, bodyWith(body, "nobody_knows", 1)), http.StatusBadRequest, "unknown_field")
			_, known, _ := strings.Cut(fmt.Sprint(inner["message"]), "it knows ")
			if want := strings.Join(slices.Sorted(maps.Keys(schema.Properties)), ", "); known != want {
				t.Errorf("%s %s knows %q, and is described with %q", method, template, known, want)
			}
		}
		for name, property := range schema.Properties {
			value := wrong(property)
			if value == nil {
				continue
			}
			tried++
			inner := refused(t, ask(w, method, path, bodyWith(body, name, value)), http.StatusBadRequest, "invalid_type")
			if inner["param"] != name {
				t.Errorf("%s %s: a wrong %s: %v", method, template, name, inner)
			}
		}
		for _, name := range schema.Required {
			without := maps.Clone(body)
			delete(without, name)
			answer := ask(w, method, path, mustJSON(without))
			inner, _ := decoded(t, answer)["error"].(map[string]any)
			if answer.Code != http.StatusBadRequest || inner["param"] != name {
				t.Errorf("%s %s without %s: %d %v", method, template, name, answer.Code, inner)
			}
		}
	})
	if tried < 150 {
		t.Errorf("only %d fields were tried", tried)
	}
}

func TestEveryParameterOfAQueryIsReadAsItIsDescribed(t *testing.T) {
	w := newWorld(t)
	tried := 0
	each(func(method, template string, op conform.Operation) {
		least := url.Values{}
		for _, p := range op.Parameters {
			if p.In == "query" && p.Required {
				least.Set(p.Name, "x")
			}
		}
		if strings.HasPrefix(template, "/api/") && op.Scope != "" {
			values := maps.Clone(least)
			values.Set("nobody_knows", "1")
			inner := refused(t, ask(w, method, w.at(template)+"?"+values.Encode(), ""), http.StatusBadRequest, "unknown_parameter")
			if inner["param"] != "nobody_knows" {
				t.Errorf("%s %s: %v", method, template, inner)
			}
		}
		refuses := func(name string, values url.Values) {
			tried++
			answer := ask(w, method, w.at(template)+"?"+values.Encode(), "")
			inner, _ := decoded(t, answer)["error"].(map[string]any)
			if answer.Code != http.StatusBadRequest || inner["param"] != name {
				t.Errorf("%s %s?%s: %d %v", method, template, values.Encode(), answer.Code, inner)
			}
		}
		for _, p := range op.Parameters {
			if p.In != "query" {
				continue
			}
			values := maps.Clone(least)
			switch kind := typesOf(&p.Schema); {
			case p.Required:
				values.Del(p.Name)
			case p.Schema.Enum == nil && slices.Equal(kind, []string{"string"}):
				continue
			default:
				values.Set(p.Name, "nobody_means_this")
			}
			refuses(p.Name, values)
			if p.Schema.Minimum != nil {
				values.Set(p.Name, fmt.Sprint(int64(*p.Schema.Minimum)-1))
				refuses(p.Name, values)
			}
			if p.Schema.Maximum != nil {
				values.Set(p.Name, fmt.Sprint(int64(*p.Schema.Maximum)+1))
				refuses(p.Name, values)
			}
		}
	})
	if tried < 30 {
		t.Errorf("only %d were tried", tried)
	}
}

// A client that knows nothing but the description finds everything that can be read.
func TestAClientFindsItsWayByTheDescription(t *testing.T) {
	w := newWorld(t)
	read := 0
	each(func(method, template string, op conform.Operation) {
		path := w.at(template)
		if method != http.MethodGet || len(op.Responses["200"].Content) == 0 || op.Responses["200"].Content["application/json"].Schema == nil {
			return
		}
		query := url.Values{}
		for _, p := range op.Parameters {
			if p.In == "query" && p.Required {
				query.Set(p.Name, "first")
			}
		}
		answer := ask(w, method, path+"?"+query.Encode(), "")
		if err := describing().Answer(method, path, answer.Code, answer.Header(), answer.Body.Bytes()); err != nil {
			t.Error(err)
		}
		if answer.Code == http.StatusOK {
			read++
			return
		}
		if code := decoded(t, answer)["error"].(map[string]any)["code"]; code != "off" && code != "not_found" {
			t.Errorf("%s: %d %s", path, answer.Code, answer.Body)
		}
	})
	if read < 30 {
		t.Errorf("only %d were read", read)
	}
}

// noSettings is a configuration of which nobody asks more than whether it is there.
type noSettings struct{}

func (noSettings) InForce() any { return map[string]any{} }

func (noSettings) Reload(context.Context) (any, error) { return map[string]any{}, nil }
