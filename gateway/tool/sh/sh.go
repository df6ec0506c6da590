// Package sh reads a command as a shell would, far enough to say which programs it would start, with which words, where each of
// them reads from and writes to.
//
// The grammar and the expansion of words are mvdan.cc/sh's; this package walks what it gives. It runs nothing, looks nothing up and
// never fails: what it cannot follow is marked. All branches, loops and functions are read once, where they stand. Variables that the
// text itself sets are followed. A word whose value is only known when it runs is Open. It owns no rule about what is dangerous.
package sh

import (
	"errors"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// MaxDepth bounds how deep substitutions and subshells are followed; nobody who means well nests deeper.
const MaxDepth = 24

// Bounds of what one text may cost. What is beyond them makes a script Broken.
const (
	maxText     = 128 << 10 // bytes the grammar is asked about: Linux starts no program with a longer word
	maxOpen     = 200       // brackets that are open at a time; the grammar has no bound of its own and costs 4 KiB of stack for each
	maxBraces   = 16        // in one word
	maxCommands = 2_000
	maxWords    = 20_000
	maxSize     = 4 << 20 // bytes of all words
	maxValue    = 8 << 10 // bytes of one variable
)

// Script is what a text would run, every substitution and subshell included, in the order of the text.
type Script struct {
	Commands []Command
	Broken   bool // a quote or a bracket is not closed, or it goes beyond a bound: a shell may read it another way
	Bomb     bool // a function calls itself and does not wait: it starts processes without end
}

// Command is one program with its words.
type Command struct {
	Assigned  []string // NAME=VALUE before it
	Words     []Word   // the first is the program; none when there are only assignments or redirections
	Redirects []Redirect
	Input     string // text of a here-document or here-string
	From      []int  // commands of the script whose output it reads: through a pipe, or as <(…)
}

// Word is one word after quotes and escapes were taken out.
type Word struct {
	Text string // what is open in it stays as it was written: $NAME
	Open bool   // a part is known only when it runs
	Glob bool   // holds a *, ? or [ and is not quoted as a whole
	Subs []int  // commands of the script whose output becomes a part of it

	Unset bool // it is open only because of variables that nothing sets: not the text, nor what it was given
}

// Redirect is where a command reads from or writes to.
type Redirect struct {
	Op     string // one of < > >> >| <> &> &>> >&
	Target Word
}

// Writes reports whether the target is written to.
func (r Redirect) Writes() bool { return r.Op != "<" }

// Text gives the words of a command with single spaces between them.
func (c Command) Text() string {
	text := ""
	for i, w := range c.Words {
		if i > 0 {
			text += " "
		}
		text += w.Text
	}
	return text
}

// Inherits says that a script may be given variables which Parse was not told of: of none it is then said that nothing sets it.
func (s Script) Inherits() {
	for _, c := range s.Commands {
		for i := range c.Words {
			c.Words[i].Unset = false
		}
	}
}

// Parse reads a text. vars are variables whose values are known, HOME for one, and 0, 1, 2 … for its arguments; they are not changed.
// functions is a text with those that the shell has when it begins; what is in them is read where they are called.
func Parse(text string, vars map[string]string, functions string) Script {
	r := &reader{
		vars: map[string]expand.Variable{}, subs: map[string][]int{}, loose: map[string]bool{}, functions: map[string]*function{}, seen: map[syntax.Node][]int{},
		parser: syntax.NewParser(),
	}
	for name, value := range vars {
		r.set(name, expand.Variable{Set: true, Str: clean(value)})
	}
	r.given(clean(functions))
	r.arguments(passed(vars))
	r.text(clean(text))
	r.uncalled()
	return r.out
}

// reader walks a text once.
type reader struct {
	out    Script
	vars   map[string]expand.Variable
	subs   map[string][]int // commands whose output a variable holds
	loose  map[string]bool  // variables that may have another value than the one that was set last; see loosen
	parser *syntax.Parser
	src    string // what positions point into
	depth  int
	part   int // where the last part of the last pipeline begins
	words  int // how many there are so far
	size   int // bytes of all words so far

	seen   map[syntax.Node][]int // commands of each substitution: braces may expand one twice
	tokens []token

	functions map[string]*function
	within    int  // 1 in the body of a function whose arguments are not known
	exported  bool // functions may be called by what is not read here
}

// text reads a script. A shell runs the whole lines before one that it does not understand, and so they are read as a script too.
func (r *reader) text(src string) {
	file, at := r.parse(src)
	rest := ""
	if file == nil {
		r.out.Broken = true
		end := strings.LastIndexByte(src[:at], '\n') + 1
		if file, _ = r.parse(src[:end]); file == nil {
			end = 0
		}
		src, rest = src[:end], src[end:]
	}
	r.src = src
	if file != nil {
		r.loosen(file, false)
		r.stmts(file.Stmts)
	}
	r.pieces(rest)
}

// parse gives nil for what is no script, and where that was seen.
func (r *reader) parse(src string) (file *syntax.File, at int) {
	if len(src) > maxText || tooDeep(src) {
		return nil, 0
	}
	file, err := r.parser.Parse(strings.NewReader(src), "")
	if err == nil {
		return file, 0
	}
	if wrong := (syntax.ParseError{}); errors.As(err, &wrong) {
		at = min(int(wrong.Pos.Offset()), len(src))
	}
	return nil, at
}

func tooDeep(src string) bool {
	open := 0
	for _, c := range []byte(src) {
		switch c {
		case '(', '{':
			open++
		case ')', '}':
			open = max(open-1, 0)
		}
		if open > maxOpen {
			return true
		}
	}
	return false
}

var plain = strings.NewReplacer("'", "", `"`, "", `\`, "")

// pieces reads what is no script: each part between two operators by itself, and where that is none either, as plain words.
func (r *reader) pieces(text string) {
	for piece := range strings.FieldsFuncSeq(text, func(c rune) bool { return strings.ContainsRune(";&|\n()`", c) }) {
		first, rest, _ := strings.Cut(strings.TrimSpace(piece), " ")
		for syntax.IsKeyword(first) {
			piece = rest
			first, rest, _ = strings.Cut(strings.TrimSpace(piece), " ")
		}
		if r.full() {
			return
		}
		if file, _ := r.parse(piece); file != nil {
			r.src = piece
			r.loosen(file, false)
			r.stmts(file.Stmts)
			continue
		}
		var c Command
		for word := range strings.FieldsSeq(plain.Replace(piece)) {
			c.Words = append(c.Words, Word{Text: word, Open: strings.Contains(word, "$"), Glob: strings.ContainsAny(word, "*?[")})
		}
		r.out.Commands = append(r.out.Commands, c)
	}
}

func (r *reader) full() bool {
	if len(r.out.Commands) >= maxCommands {
		r.out.Broken = true
	}
	return len(r.out.Commands) >= maxCommands
}

// written is a node as it stands in the text.
func (r *reader) written(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from >= to || to > len(r.src) {
		return "$"
	}
	return r.src[from:to]
}

// set notes a variable. One that is too long is not followed. One that may keep its old value has both, one behind the other: what is
// done with either is seen.
func (r *reader) set(name string, value expand.Variable) {
	value.Kind = expand.String
	if value.List != nil {
		value.Kind = expand.Indexed
	}
	if before := r.vars[name]; r.loose[name] && before.Set && before.Str != value.Str {
		value.Str, value.List = before.Str+" "+value.Str, slices.Concat(before.List, value.List)
	}
	if len(value.Str)+len(strings.Join(value.List, " ")) > maxValue {
		r.out.Broken = true
		delete(r.vars, name)
		return
	}
	r.vars[name] = value
}

func span(from, to int) []int {
	out := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}
