package tool

import (
	"path"
	"slices"
	"strings"

	"gatewayd/gateway/tool/sh"
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
	vars   map[string]string
	dir    string
	out    []action
	broken bool
}

// actions reads a command. broken says that a shell may read it another way.
func actions(text, dir string, vars map[string]string) (out []action, broken bool) {
	r := &reader{vars: vars, dir: dir}
	r.text(normalise(text), action{}, 0)
	return r.out, r.broken
}

// text reads a script; as is what already holds of its commands.
func (r *reader) text(text string, as action, depth int) {
	if depth > maxNesting {
		r.broken = true
		return
	}
	script := sh.Parse(text, r.vars)
	r.broken = r.broken || script.Broken
	for _, c := range script.Commands {
		a := action{root: as.root, fed: as.fed, remote: as.remote, dir: r.dir, command: c, args: c.Words}
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
			r.out = append(r.out, a)
			return
		}
		word := a.args[0]
		a.name, a.open, a.args = path.Base(word.Text), word.Open && !readable(word.Text), a.args[1:]
		w, wraps := wrappers[a.name]
		if !wraps {
			r.program(a, script, depth)
			return
		}
		a.root, a.fed, a.remote = a.root || w.root, a.fed || w.fed, a.remote || w.remote
		if text, ok := w.text(a.args); ok {
			r.keep(a)
			r.text(text, a, depth+1)
			return
		}
		inner := w.inner(a.args)
		if w.keep || len(inner) == 0 {
			r.keep(a)
		}
		if len(inner) == 0 {
			return
		}
		a.args = inner
	}
	r.broken = true
}

// readable reports a name that is plain although a part of the word was computed: $(which rm).
func readable(text string) bool { return text != "" && !strings.ContainsAny(text, "$`(") }

func (r *reader) keep(a action) { r.out = append(r.out, a) }

// program notes an action, and reads the commands that it is given to run.
func (r *reader) program(a action, script sh.Script, depth int) {
	switch {
	case a.name == "cd" || a.name == "pushd":
		r.cd(a)
	case a.name == "eval":
		r.eval(&a, script, depth)
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
		if w.Open && !readable(w.Text) {
			a.script = true
			a.from = append(a.from, picked(script, w.Subs)...)
		}
	}
	a.code = strings.Join(words, " ")
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
		case w.Text == "-o" || w.Text == "+o" || w.Text == "-O" || w.Text == "+O" || w.Text == "--rcfile" || w.Text == "--init-file":
			i++
		case strings.HasPrefix(w.Text, "-") && !strings.HasPrefix(w.Text, "--") && strings.Contains(w.Text, "c") && i+1 < len(a.args):
			r.handed(a, a.args[i+1], script, depth)
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

// handed is a text behind -c. One that is computed as a whole is not known; what is written in it is read in any case.
func (r *reader) handed(a *action, w sh.Word, script sh.Script, depth int) {
	if w.Open && (strings.HasPrefix(w.Text, "$") || strings.HasPrefix(w.Text, "`")) {
		a.script = true
		a.from = append(a.from, picked(script, w.Subs)...)
	}
	a.code = w.Text
	r.text(w.Text, *a, depth+1)
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
		text, known := printed(c)
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

// printed gives what a command writes to its standard output, where that is in the text.
func printed(c sh.Command) (string, bool) {
	if len(c.Words) == 0 {
		return "", true
	}
	switch c.Words[0].Text {
	case "cat", "tee":
		return c.Input, c.Input != "" && len(c.From) == 0
	case "echo", "printf":
		text, known := "", true
		for _, w := range c.Words[1:] {
			known = known && !w.Open
			text += w.Text + " "
		}
		return strings.NewReplacer(`\n`, "\n", `\t`, "\t", `%s`, "").Replace(text), known
	}
	return "", false
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
