package tool

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gatewayd/gateway/tool/sh"
	"gatewayd/internal/mutation"
)

// action is one program that a command would run, after the wrappers around it were taken off: sudo, env, timeout, xargs, sh -c and
// their like. Reading it is all that rules do.
type action struct {
	name   string    // without its directory; "" when it is only assignments or redirections
	args   []sh.Word // behind the name
	root   bool      // by sudo or one of its kind
	fed    bool      // more arguments come when it runs: by xargs, or by find
	remote bool      // in a container or on another machine
	dir    string    // where it would run, as far as the text says; "" when it cannot be known

	command sh.Command
	from    []sh.Command // whose output it reads, or is made of
	script  bool         // it is a shell or an interpreter, and what it runs is not in the text
	inline  bool         // it is an interpreter, and what it runs is in the text
	code    string       // what is known of that
	open    bool         // its name is known only when it runs
}

// maxNesting bounds sh -c inside of sh -c.
const maxNesting = 8

// reader collects the actions of a text.
type reader struct {
	vars    map[string]string
	dir     string
	out     []action
	broken  bool
	bomb    bool
	aliases map[string]string

	functions string // that the shell has when it begins
}

// actions reads a command. broken says that a shell may read it another way.
func actions(text string, at standing, self *Self) (out []action, broken bool) {
	r := read(text, at, self)
	return r.out, r.broken
}

// read reads a text as it stands, which is what a shell does, and where letters in it are not what they seem also as it seems: neither
// a wide quote nor a wide # may hide what is behind it.
func read(text string, at standing, self *Self) *reader {
	r := &reader{vars: at.vars(self), dir: at.dir, functions: at.functions, aliases: map[string]string{}}
	plain := normalise(text)
	if mutation.On("letters-are-what-they-seem") {
		text = plain
	}
	r.text(text, action{}, 0)
	if plain != text {
		r.dir = at.dir
		r.text(plain, action{}, 0)
	}
	return r
}

// text reads a script; as is what already holds of its commands.
func (r *reader) text(text string, as action, depth int) {
	if depth > maxNesting {
		r.broken = true
		return
	}
	script := sh.Parse(text, r.vars, r.functions)
	if depth > 0 {
		script.Inherits()
	}
	r.broken, r.bomb = r.broken || script.Broken, r.bomb || script.Bomb
	for _, c := range script.Commands {
		a := action{root: as.root, fed: as.fed, remote: as.remote, dir: r.dir, command: c, args: c.Words}
		for _, text := range handed(c) {
			r.text(text, a, depth+1)
		}
		for _, i := range c.From {
			a.from = append(a.from, script.Commands[i])
		}
		r.peel(a, script, depth)
	}
}

// peel takes wrappers off until a program is left, and follows what that program runs itself.
func (r *reader) peel(a action, script sh.Script, depth int) {
	for range maxNesting {
		if len(a.args) == 0 {
			a.open = a.open || a.fed && a.name != "xargs" // xargs env runs what it reads
			r.keep(a)
			return
		}
		word := a.args[0]
		a.name, a.open, a.args = path.Base(word.Text), computed(word), a.args[1:]
		if a.open && !mutation.On("open-word-is-believed") {
			r.guess(a, word, script, depth)
		}
		if text, ok := r.aliases[a.name]; ok {
			delete(r.aliases, a.name) // its text may begin with its own name
			r.text(text+" "+strings.Join(a.texts(), " "), a, depth+1)
			r.aliases[a.name] = text
		}
		w, wraps := wrapperOf(a)
		if !wraps {
			r.program(a, script, depth)
			return
		}
		a.root, a.fed, a.remote = a.root || w.root, a.fed || w.fed, a.remote || w.remote
		text, ok := w.text(a.args)
		if ok {
			r.text(text, a, depth+1)
		}
		if w.words {
			r.keep(a)
			return
		}
		inner, doubt := w.inner(a.args)
		if w.keep || ok || len(inner) == 0 && !a.fed {
			r.keep(a)
		}
		if len(inner) == 0 && !a.fed {
			return
		}
		if doubt && len(inner) > 1 {
			r.again(a, inner[1:], script, depth) // its first word may be the value of an option that is not known
		}
		if a.args = inner; a.name == "xargs" && len(inner) > 0 {
			a.args = append(slices.Clone(inner), a.supplied()...)
		}
	}
	r.broken = true
}

// computed reports a program whose name is only known when it runs.
func computed(w sh.Word) bool {
	return w.Open || w.Glob && w.Text != "[" || strings.ContainsAny(w.Text, "()") || isInside(w.Text, "/proc")
}

// openPart is what of a word is known only when it runs.
var openPart = regexp.MustCompile("\\$\\w+|\\$\\{[^}]*\\}|\\$\\([^)]*\\)|`[^`]*`")

// guess reads what a command would be whose first word turns out to be empty, or to be a program that runs the one behind it; and what
// it would be if only the open part of that word were empty.
func (r *reader) guess(a action, word sh.Word, script sh.Script, depth int) {
	if words := strings.Fields(word.Text); len(words) > 1 {
		split := make([]sh.Word, 0, len(words)+len(a.args))
		for _, text := range words {
			split = append(split, sh.Word{Text: text})
		}
		r.again(a, append(split, a.args...), script, depth)
	}
	if rest := openPart.ReplaceAllString(word.Text, ""); rest != "" && rest != word.Text {
		r.again(a, append([]sh.Word{{Text: rest}}, a.args...), script, depth)
	}
	r.again(a, a.args, script, depth)
}

func (r *reader) again(a action, args []sh.Word, script sh.Script, depth int) {
	switch {
	case len(args) == 0:
	case depth >= maxNesting:
		r.broken = true
	default:
		a.args = args
		r.peel(a, script, depth+1)
	}
}

// supplied is the arguments that xargs reads, where they are in the text.
func (a action) supplied() (words []sh.Word) {
	text := a.command.Input
	for _, c := range a.from {
		if said, known := c.Prints(); known {
			text += " " + said
		}
	}
	for word := range strings.FieldsSeq(text) {
		words = append(words, sh.Word{Text: strings.Trim(word, `"'`)})
	}
	return words
}

func (r *reader) keep(a action) { r.out = append(r.out, a) }

// program notes an action, and reads the commands that it is given to run.
func (r *reader) program(a action, script sh.Script, depth int) {
	switch {
	case a.name == "cd" || a.name == "pushd":
		r.cd(a)
	case a.name == "eval":
		r.eval(&a, script, depth)
	case a.name == "trap" && len(a.operands()) > 1:
		r.text(a.operands()[0], a, depth+1)
	case a.name == "alias":
		r.alias(a, depth)
	case a.name == "." || a.name == "source":
		r.source(&a, script)
	case slices.Contains(shellNames, a.name):
		r.shell(&a, script, depth)
	case a.name == "find":
		r.find(a, script, depth)
	default:
		interpret(&a)
	}
	r.keep(a)
}

// alias reads what a name will stand for.
func (r *reader) alias(a action, depth int) {
	for _, arg := range a.texts() {
		if name, text, ok := strings.Cut(arg, "="); ok {
			delete(r.aliases, name)
			r.text(text, a, depth+1)
			r.aliases[name] = text
		}
	}
}

func (r *reader) cd(a action) {
	for _, w := range a.args {
		if strings.HasPrefix(w.Text, "-") {
			continue
		}
		r.dir = ""
		if !w.Open {
			r.dir = absolute(a.dir, w.Text)
		}
		return
	}
	r.dir = r.vars["HOME"]
}

// absolute makes a path of what a command calls a file; "" when that depends on what is not known.
func absolute(dir, name string) string {
	switch {
	case strings.HasPrefix(name, "/"):
		return path.Clean(name)
	case dir == "" || strings.HasPrefix(name, "~"):
		return ""
	}
	return path.Join(dir, name)
}

var shellNames = []string{"sh", "bash", "dash", "zsh", "ash", "ksh", "mksh", "rbash", "fish", "busybox-sh"}

// eval runs its words as a text.
func (r *reader) eval(a *action, script sh.Script, depth int) {
	words := make([]string, 0, len(a.args))
	for _, w := range a.args {
		words = append(words, w.Text)
		if w.Open {
			a.script = true
			a.from = append(a.from, picked(script, w.Subs)...)
		}
	}
	a.code = strings.TrimPrefix(strings.Join(words, " "), "-- ")
	r.text(a.code, *a, depth+1)
}

func picked(script sh.Script, at []int) []sh.Command {
	out := make([]sh.Command, 0, len(at))
	for _, i := range at {
		out = append(out, script.Commands[i])
	}
	return out
}

func (r *reader) source(a *action, script sh.Script) {
	if len(a.args) == 0 {
		return
	}
	first := a.args[0]
	if len(first.Subs) > 0 || first.Text == "/dev/stdin" {
		a.script = true
		a.from = append(a.from, picked(script, first.Subs)...)
	}
}

// shell finds what a shell is given: a text behind -c, a file, or its standard input.
func (r *reader) shell(a *action, script sh.Script, depth int) {
	for i := 0; i < len(a.args); i++ {
		w := a.args[i]
		switch {
		case w.Text == "--rcfile" || w.Text == "--init-file":
			if i++; i < len(a.args) {
				a.script = a.script || len(a.args[i].Subs) > 0
				a.from = append(a.from, picked(script, a.args[i].Subs)...)
			}
		case w.Text == "-o" || w.Text == "+o" || w.Text == "-O" || w.Text == "+O":
			i++
		case strings.HasPrefix(w.Text, "-") && !strings.HasPrefix(w.Text, "--") && strings.Contains(w.Text, "c") && i+1 < len(a.args):
			r.given(a, a.args[i+1:], script, depth)
			return
		case w.Text == "-s" || w.Text == "-" || w.Text == "--":
		case strings.HasPrefix(w.Text, "-"):
		case len(w.Subs) > 0 || w.Text == "/dev/stdin":
			a.script = true
			a.from = append(a.from, picked(script, w.Subs)...)
			return
		default:
			return // a file
		}
	}
	r.fedShell(a, depth)
}

// given is a text behind -c, and its arguments. One that is computed as a whole is not known; what is written in it is read in any
// case.
func (r *reader) given(a *action, words []sh.Word, script sh.Script, depth int) {
	w := words[0]
	if w.Open && (strings.HasPrefix(w.Text, "$") || strings.HasPrefix(w.Text, "`")) || a.fed && !strings.ContainsAny(w.Text, " \t\n;") {
		a.script = true
		a.from = append(a.from, picked(script, w.Subs)...)
	}
	a.code = w.Text
	vars := r.vars
	r.vars = maps.Clone(vars)
	if r.vars == nil {
		r.vars = map[string]string{}
	}
	for i, arg := range words[1:] {
		r.vars[strconv.Itoa(i)] = arg.Text
	}
	r.text(w.Text, *a, depth+1)
	r.vars = vars
}

// fedShell is a shell that runs its standard input. What is printed by echo, printf or a here-document can be read.
func (r *reader) fedShell(a *action, depth int) {
	if a.command.Input != "" {
		a.code = a.command.Input
		r.text(a.code, *a, depth+1)
		return
	}
	if len(a.from) == 0 && !reads(a.command) {
		a.script = a.fed
		return
	}
	for _, c := range a.from {
		text, known := c.Prints()
		a.script = a.script || !known
		a.code += text
	}
	a.script = a.script || len(a.from) == 0
	if a.code != "" {
		r.text(a.code, *a, depth+1)
	}
}

func reads(c sh.Command) bool {
	return slices.ContainsFunc(c.Redirects, func(r sh.Redirect) bool { return !r.Writes() })
}

// find runs commands of its own.
func (r *reader) find(a action, script sh.Script, depth int) {
	for i, w := range a.args {
		switch w.Text {
		case "-exec", "-execdir", "-ok", "-okdir":
			inner := a
			inner.args = nil
			for _, v := range a.args[i+1:] {
				if v.Text == ";" || v.Text == "+" {
					break
				}
				inner.args = append(inner.args, v)
			}
			inner.fed = true
			if len(inner.args) > 0 && depth <= maxNesting {
				r.peel(inner, script, depth+1)
			}
		}
	}
}
