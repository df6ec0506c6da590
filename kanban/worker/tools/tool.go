package tools

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
)

// Tool is one thing that a model may do with the board.
type Tool struct {
	Name, About string
	ReadOnly    bool // it changes nothing
	Ends        bool // it ends the attempt of the worker that calls it
	params      []param
	person      bool // not for workers
	run         func(context.Context, *call) (map[string]any, error)
}

// board is the parameter that all tools take.
var boardParam = param{name: "board", kind: text, about: "the board; default: a worker's own, else the current one"}

// card is the parameter by which most tools name their card.
var cardParam = param{name: "task_id", kind: text, about: "the card; default: a worker's own"}

// All are the tools, sorted by name.
func All() []Tool {
	all := slices.Concat(readers(), enders(), writers(), files())
	for i := range all {
		all[i].params = append(all[i].params, boardParam)
	}
	slices.SortFunc(all, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Tools are those that the desk's speaker may use, sorted by name.
func (d *Desk) Tools() []Tool {
	return slices.DeleteFunc(All(), func(t Tool) bool { return t.person && d.Worker != nil })
}

func (d *Desk) find(name string) (Tool, error) {
	all := All()
	i := slices.IndexFunc(all, func(t Tool) bool { return t.Name == name })
	switch {
	case i < 0:
		var names []string
		for _, t := range d.Tools() {
			names = append(names, t.Name)
		}
		return Tool{}, refuse("tool "+name, "does not exist", "use one of "+strings.Join(names, ", "))
	case all[i].person && d.Worker != nil:
		return Tool{}, refuse("tool "+name, "is for orchestrators, not for the worker of a card", "go on with your own card "+d.Worker.Task)
	}
	return all[i], nil
}

// verb is the tool in the words of the command line, by which it is decided who may use it.
func (t Tool) verb() string {
	return strings.ReplaceAll(strings.TrimPrefix(t.Name, "kanban_"), "_", "-")
}

func (t Tool) param(name string) (param, bool) {
	i := slices.IndexFunc(t.params, func(p param) bool { return p.name == name })
	if i < 0 {
		return param{}, false
	}
	return t.params[i], true
}

func (t Tool) takes(name string) bool {
	_, is := t.param(name)
	return is
}

func (t Tool) names() string {
	var names []string
	for _, p := range t.params {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// Schema is the JSON schema of the tool's arguments.
func (t Tool) Schema() json.RawMessage {
	properties, required := map[string]any{}, []string{}
	for _, p := range t.params {
		property := map[string]any{"type": p.kind, "description": p.about}
		if p.kind == list {
			property["items"] = map[string]any{"type": text}
		}
		if p.one != nil {
			property["enum"] = p.one
		}
		properties[p.name] = property
		if p.must {
			required = append(required, p.name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	out, err := json.Marshal(schema)
	if err != nil {
		panic(err) // maps of strings
	}
	return out
}
