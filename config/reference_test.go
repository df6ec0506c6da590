package config

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

const referencePath = "../docs/configuration.md"

// The page about settings is made of the struct, its tags and its comments: `go test ./config -run Reference -update` writes it.
func TestTheReferenceIsMadeOfTheStruct(t *testing.T) {
	want := newManual(t).page()
	if *update {
		if err := os.WriteFile(referencePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/configuration.md is not what the settings are: `go test ./config -run Reference -update` writes it anew; the first difference is\n%s", firstDifference(string(got), want))
	}
}

func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "- " + a[i] + "\n+ " + b[i]
		}
	}
	return fmt.Sprintf("one has %d lines, the other %d", len(a), len(b))
}

// manual writes the page.
type manual struct {
	t     *testing.T
	docs  map[string]string // by type, and by type and field: "Agent", "Agent.MaxIterations"
	names map[string]map[string]string
	out   strings.Builder
}

// newManual reads the comments of every struct of the package.
func newManual(t *testing.T) *manual {
	t.Helper()
	r := &manual{t: t, docs: map[string]string{}, names: map[string]map[string]string{}}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if g, is := d.(*ast.GenDecl); is {
				r.read(g)
			}
		}
	}
	return r
}

func (r *manual) read(g *ast.GenDecl) {
	for _, s := range g.Specs {
		spec, is := s.(*ast.TypeSpec)
		if !is {
			continue
		}
		body, is := spec.Type.(*ast.StructType)
		if !is {
			continue
		}
		r.docs[spec.Name.Name] = prose(g.Doc.Text())
		before := ""
		for _, f := range body.Fields.List {
			for _, name := range f.Names {
				// A comment above two fields is about both.
				before = cmp.Or(prose(f.Doc.Text()), before)
				r.docs[spec.Name.Name+"."+name.Name] = before
			}
		}
	}
}

// prose is a comment in one line of a table.
func prose(comment string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(comment), " "), "|", "\\|")
}

func (r *manual) page() string {
	r.printf(`# Configuration

Every setting, made of the program by a test. Settings are read from flags, the environment, %[1]sconfig.yaml%[1]s and %[1]s.env%[1]s in the home, the first of them that
says something; what none says has its default. Nothing is ignored: an unknown key, a wrong type or a bad value is refused with its place.

%[2]ssh
gatewayd config check
gatewayd config show
gatewayd config reload
%[2]s

Durations are written with a unit (%[1]s30s%[1]s, %[1]s5m%[1]s, %[1]s4h%[1]s), paths may be relative to the home, and lists are %[1]s[a, b]%[1]s. "Counts" says from when on a running daemon goes by a
changed value after %[1]sgatewayd config reload%[1]s: with the next message, with the next worker, at once, or from the next start on.

`, "`", "```")
	root := reflect.TypeFor[Config]()
	for i := range root.NumField() {
		field := root.Field(i)
		if name := field.Tag.Get("yaml"); name != "-" {
			r.section(name, name, field.Type)
		}
	}
	r.environment()
	return r.out.String()
}

func (r *manual) printf(format string, args ...any) { fmt.Fprintf(&r.out, format, args...) }

// section writes a struct's own settings as a table, then those below it.
func (r *manual) section(heading, prefix string, t reflect.Type) {
	for t.Kind() != reflect.Struct {
		t = t.Elem()
		if prefix == heading { // a map of structs, or a list
			prefix += ".NAME"
		}
	}
	r.printf("## %s\n\n%s\n\n| setting | default | counts | what it is |\n|---|---|---|---|\n", heading, r.inKeys(t, r.docs[t.Name()]))
	var below []func()
	for i := range t.NumField() {
		field := t.Field(i)
		name := field.Tag.Get("yaml")
		if name == "-" {
			continue
		}
		key := prefix + "." + name
		switch {
		case isSection(field.Type):
			below = append(below, func() { r.section(key, key, field.Type) })
		case isNamed(field.Type):
			below = append(below, func() { r.section(key, key+".NAME", field.Type.Elem()) })
		case isListed(field.Type):
			below = append(below, func() { r.section(key, key+"[]", field.Type.Elem()) })
		default:
			r.row(key, t, field)
		}
	}
	r.printf("\n")
	for _, write := range below {
		write()
	}
}

func (r *manual) row(key string, t reflect.Type, field reflect.StructField) {
	doc := r.docs[t.Name()+"."+field.Name]
	if doc == "" {
		r.t.Errorf("%s has no comment: config.%s.%s", key, t.Name(), field.Name)
	}
	counts := cmp.Or(Live(strings.NewReplacer(".NAME", "", "[]", "").Replace(key)), "from the next start on")
	counts = strings.TrimSuffix(strings.TrimPrefix(counts, "from the "), " on")
	r.printf("| `%s`: %s | %s | %s | %s |\n", key, kind(field), fallback(field), counts, r.inKeys(t, doc))
}

// kind says what a value looks like, and within which bounds.
func kind(field reflect.StructField) string {
	what := map[reflect.Kind]string{
		reflect.String: "text", reflect.Bool: "true or false", reflect.Int: "number", reflect.Int64: "number", reflect.Float64: "fraction",
		reflect.Slice: "list", reflect.Map: "map",
	}[field.Type.Kind()]
	switch of := field.Tag.Get("oneof"); {
	case field.Type == durationType:
		what = "duration"
	case of != "":
		return strings.Join(strings.Fields(of), ", ")
	case field.Tag.Get("kind") != "":
		what = cmp.Or(map[string]string{"path": "path", "url": "URL", "hook": "URL", "envname": "name of a variable", "hostport": "HOST:PORT", "origin": "list of origins"}[field.Tag.Get("kind")], what)
		if field.Type.Kind() == reflect.Slice && !strings.HasPrefix(what, "list") {
			what = "list, each a " + what
		}
	}
	if least := field.Tag.Get("min"); least != "" {
		what += ", at least " + least
	}
	if most := field.Tag.Get("max"); most != "" {
		what += ", at most " + most
	}
	return what
}

func fallback(field reflect.StructField) string {
	text, has := field.Tag.Lookup("default")
	switch {
	case !has || text == "":
		return "–"
	case field.Type == durationType:
		v := reflect.New(durationType).Elem()
		if parse(v, text, plainUnit) == nil {
			text = render(v)
		}
	}
	return "`" + text + "`"
}

// inKeys calls the fields of a struct by their keys: a person who reads the page has never seen the struct.
func (r *manual) inKeys(t reflect.Type, doc string) string {
	for i := range t.NumField() {
		name, key := t.Field(i).Name, t.Field(i).Tag.Get("yaml")
		if key != "" && key != "-" && name != strings.ToLower(name) {
			doc = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllStringFunc(doc, func(string) string { return "`" + key + "`" })
		}
	}
	return plainly(doc)
}

// plainly takes off "`key` is" where the key stands beside it anyway.
func plainly(doc string) string {
	_, rest, found := strings.Cut(doc, "` is ")
	if !found || strings.Count(doc[:len(doc)-len(rest)], "`") != 2 || doc[0] != '`' {
		return doc
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}

// environment writes the variables, which are also those that .env may have.
func (r *manual) environment() {
	r.printf(`## Environment and .env

These win over the file, and flags (%[1]s--home%[1]s, %[1]s--addr%[1]s) over them. They may also stand in %[1]s.env%[1]s in the home (0600), one %[1]sNAME=value%[1]s to a line, where
they are weaker than %[1]sconfig.yaml%[1]s; other variables in it are added to the environment where they are missing. A variable that begins with GATEWAYD_ and is not here is refused. An empty one counts as not set; where a number or a
switch has a second name, which is Hermes', an empty one is refused, but an unusable crash grace means 30 s and a warning.

| variable | sets | written as |
|---|---|---|
| %[1]sGATEWAYD_HOME%[1]s | the home, %[1]s~/.gatewayd%[1]s without it; not in %[1]s.env%[1]s | path |
| %[1]sGATEWAYD_KANBAN_HOME%[1]s | %[1]skanban.root%[1]s, where the file does not | path |
| %[1]sGATEWAYD_MODEL_API_KEY%[1]s | the model's key; best in %[1]s.env%[1]s or a credential | text |
`, "`")
	for _, v := range variables {
		name := "`" + v.name + "`"
		if v.hermes {
			name += " or `" + hermesName(v.name) + "`"
		}
		written := map[unit]string{plainUnit: "as in the file", inSeconds: "seconds", inMilliseconds: "milliseconds", asSwitch: "1, true, yes, on, 0, false, no or off"}[v.unit]
		r.printf("| %s | `%s` | %s |\n", name, v.key, written)
	}
	r.printf("\nKeys of models and secrets of webhooks come from variables or files that the settings name, or from systemd (`LoadCredential=`, [service.md](service.md)).\n")
}
