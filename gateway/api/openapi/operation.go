package openapi

import (
	"embed"
	"fmt"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed *.yaml
var files embed.FS

// aboutFile holds what belongs to no noun: the texts, the parameters of paths, the codes of errors.
const aboutFile = "about.yaml"

// noun is one file: the operations by path and method, and shapes that no Go type has.
type noun struct {
	About  string                          `yaml:"about"`
	Paths  map[string]map[string]operation `yaml:"paths"`
	Shapes map[string]any                  `yaml:"shapes"`
}

// operation is one method of one path as its file tells it.
type operation struct {
	ID      string         `yaml:"id"`
	Summary string         `yaml:"summary"`
	Scope   string         `yaml:"scope"`   // none: it is open
	Query   map[string]any `yaml:"query"`   // a shape by parameter
	Headers map[string]any `yaml:"headers"` // likewise
	Body    any            `yaml:"body"`    // the shape of a JSON object
	Free    bool           `yaml:"free"`    // the body may be left out
	Upload  []string       `yaml:"upload"`  // media types of a body that is no JSON
	Answers map[int]any    `yaml:"answers"` // a shape by status; nothing has no body
	File    string         `yaml:"file"`    // the answer's media type where it is no JSON
	Stream  map[string]any `yaml:"stream"`  // the shape of an event's data by its name; message has none
	Errors  []string       `yaml:"errors"`  // codes of refusals, and names of groups of them

	tag, path, method string
}

// about is aboutFile.
type about struct {
	Info       map[string]any      `yaml:"info"`
	Scopes     map[string]string   `yaml:"scopes"`
	Parameters map[string]any      `yaml:"parameters"`
	Headers    map[string]any      `yaml:"headers"`
	Codes      map[string]string   `yaml:"codes"` // "STATUS[ STATUS] — when"
	Groups     map[string][]string `yaml:"groups"`
}

// readAll reads every file.
func readAll() (about, map[string]noun, error) {
	var a about
	nouns := map[string]noun{}
	names, err := files.ReadDir(".")
	if err != nil {
		return a, nil, err
	}
	for _, entry := range names {
		raw, err := files.ReadFile(entry.Name())
		if err != nil {
			return a, nil, err
		}
		var n noun
		var into any = &n
		if entry.Name() == aboutFile {
			into = &a
		}
		if err := yaml.UnmarshalWithOptions(raw, into, yaml.Strict()); err != nil {
			return a, nil, fmt.Errorf("read %s: %w", entry.Name(), err)
		}
		if entry.Name() != aboutFile {
			nouns[strings.TrimSuffix(entry.Name(), path.Ext(entry.Name()))] = n
		}
	}
	return a, nouns, nil
}

// operations are those of all files, by path and method.
func operations(nouns map[string]noun) []operation {
	var all []operation
	for _, tag := range slices.Sorted(maps.Keys(nouns)) {
		for path, methods := range nouns[tag].Paths {
			for method, op := range methods {
				op.tag, op.path, op.method = tag, path, method
				all = append(all, op)
			}
		}
	}
	slices.SortFunc(all, func(a, b operation) int {
		return strings.Compare(a.path+" "+a.method, b.path+" "+b.method)
	})
	return all
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// pathParameters are the names in a path's braces, in their order.
func (o operation) pathParameters() []string {
	var names []string
	for _, match := range pathParameter.FindAllStringSubmatch(o.path, -1) {
		names = append(names, match[1])
	}
	return names
}

// changes reports whether the method is one that changes something.
func (o operation) changes() bool {
	return o.method != "get" && o.method != "head"
}

// groups are the names of the groups of errors that every operation of this kind can give, beside those that it names.
func (o operation) groups() []string {
	names := []string{"every"}
	if o.Scope != "" {
		names = append(names, "key")
	}
	if o.Body != nil {
		names = append(names, "body")
	}
	if o.Query != nil {
		names = append(names, "query")
	}
	if o.Scope != "" && strings.HasPrefix(o.path, "/api/") {
		names = append(names, "closed")
	}
	if o.changes() && o.Scope != "" {
		names = append(names, "change")
	}
	if strings.Contains(o.path, "{board}") {
		names = append(names, "board")
	}
	return names
}

func describe(status int) string {
	if text := http.StatusText(status); text != "" {
		return text
	}
	return fmt.Sprint(status)
}
