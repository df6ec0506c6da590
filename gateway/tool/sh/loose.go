package sh

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// anyVariable stands in reader.loose for all of them.
const anyVariable = ""

// loosen finds the variables whose last assignment in the text need not be the one that counts when they are used: those that are set
// where a shell may not come to, or in a shell of its own (unsure), or for one command, or by a builtin. A word with such a variable is
// open. Each node is visited once.
func (r *reader) loosen(root syntax.Node, unsure bool) {
	syntax.Walk(root, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.IfClause, *syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause, *syntax.Subshell, *syntax.FuncDecl, *syntax.CmdSubst, *syntax.ProcSubst, *syntax.CoprocClause:
			if !unsure {
				r.loosen(n, true)
				return false
			}
		case *syntax.BinaryCmd:
			if !unsure {
				r.loosen(n.X, isPipe(n))
				r.loosen(n.Y, true)
				return false
			}
		case *syntax.Stmt:
			if n.Background && !unsure {
				r.loosen(n, true)
				return false
			}
		case *syntax.WordIter:
			r.loose[n.Name.Value] = true
		case *syntax.Assign:
			r.loosenAssign(n, unsure)
		case *syntax.ParamExp:
			if n.Exp != nil && slices.Contains(assignments, n.Exp.Op) {
				r.loose[n.Param.Value] = true
			}
		case *syntax.DeclClause:
			for _, a := range n.Args {
				r.exported = r.exported || a.Name == nil && a.Value != nil && strings.Contains(a.Value.Lit(), "f")
			}
		case *syntax.CallExpr:
			if len(n.Args) > 0 {
				for _, a := range n.Assigns {
					r.loosenAssign(a, true)
				}
				r.builtin(n.Args)
			}
		}
		return true
	})
}

func (r *reader) loosenAssign(a *syntax.Assign, unsure bool) {
	if unsure && a.Name != nil {
		r.loose[a.Name.Value] = true
	}
}

// builtin marks what a builtin may set.
func (r *reader) builtin(args []*syntax.Word) {
	name, args := args[0].Lit(), args[1:]
	switch {
	case (name == "builtin" || name == "command") && len(args) > 0:
		r.builtin(args)
	case name == "printf" && (len(args) == 0 || args[0].Lit() != "-v"):
	case slices.Contains([]string{"read", "unset", "printf", "mapfile", "readarray", "getopts", "let"}, name):
		for _, w := range args {
			r.loose[w.Lit()] = true // an option, or an empty text for what is quoted: any variable, then
		}
	case name == "trap" || name == "xargs": // may call a function by its name
		r.exported = true
	case name == "eval" || name == "source" || name == ".":
		r.loose[anyVariable] = true
	case name == "shift":
		for _, name := range argumentNames {
			r.loose[name] = true
		}
	}
}

// function is one that the text defines, or that was there before.
type function struct {
	decl    *syntax.FuncDecl
	src     string // what its positions point into
	reading bool   // its body is being read for a call
	read    bool   // it was called, so that its body was read with its arguments
}

// given notes the functions that a shell has when it begins.
func (r *reader) given(functions string) {
	file, _ := r.parse(functions)
	if file == nil {
		r.out.Broken = r.out.Broken || functions != ""
		return
	}
	for _, s := range file.Stmts {
		if f, ok := s.Cmd.(*syntax.FuncDecl); ok && f.Name != nil {
			r.functions[f.Name.Value] = &function{decl: f, src: functions, read: true}
		}
	}
}

// define notes a function. Its body is read where it is called, and at the end of the text where it is not.
func (r *reader) define(f *syntax.FuncDecl) {
	if f.Name == nil {
		r.stmt(f.Body)
		return
	}
	if before := r.functions[f.Name.Value]; before != nil && !before.read {
		r.body(before, nil, 1)
	}
	r.functions[f.Name.Value] = &function{decl: f, src: r.src}
	r.out.Bomb = r.out.Bomb || bomb(f)
}

// uncalled reads what was defined and not called, for arguments that are not known.
func (r *reader) uncalled() {
	for _, name := range slices.Sorted(maps.Keys(r.functions)) {
		if f := r.functions[name]; !f.read || r.exported {
			r.body(f, nil, 1)
		}
	}
}

// call reads the body of a function for the arguments of a call. set is read likewise: what is behind it are arguments from then on.
func (r *reader) call(words []Word) {
	if len(words) == 0 {
		return
	}
	switch f := r.functions[words[0].Text]; {
	case words[0].Text == "set":
		r.positional(words[1:])
	case f == nil || f.reading:
	case slices.ContainsFunc(words, func(w Word) bool { return w.Open }):
		r.body(f, texts(words[1:]), 1)
	default:
		r.body(f, texts(words[1:]), 0)
	}
}

// body reads a function's body. unknown is 1 where there may be more arguments than these.
func (r *reader) body(f *function, args []string, unknown int) {
	if r.depth >= MaxDepth {
		r.out.Broken = true
		return
	}
	before, src, within := r.arguments(args), r.src, r.within
	f.read, f.reading, r.src, r.within = true, true, f.src, unknown
	r.depth++
	r.stmt(f.decl.Body)
	r.depth--
	f.reading, r.src, r.within = false, src, within
	r.restore(before)
}

func (r *reader) positional(words []Word) {
	for i, w := range words {
		if w.Text == "--" {
			words = words[i+1:]
			break
		}
		if len(w.Text) > 0 && w.Text[0] != '-' && w.Text[0] != '+' {
			words = words[i:]
			break
		}
		if i == len(words)-1 {
			return
		}
	}
	if len(words) > 0 {
		r.arguments(texts(words))
	}
}

var argumentNames = []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "@", "*"}

// arguments sets $1, $2, … and $@, and gives what they were.
func (r *reader) arguments(args []string) (before map[string]expand.Variable) {
	before = map[string]expand.Variable{}
	for _, name := range argumentNames {
		if v, ok := r.vars[name]; ok {
			before[name] = v
		}
		delete(r.vars, name)
	}
	all := expand.Variable{Set: true, List: args}
	for i, arg := range args {
		if i < 9 {
			r.set(strconv.Itoa(i+1), expand.Variable{Set: true, Str: arg})
		}
		all.Str += arg + " "
	}
	if len(args) > 0 {
		r.set("@", all)
		r.set("*", all)
	}
	return before
}

func (r *reader) restore(before map[string]expand.Variable) {
	r.arguments(nil)
	for name, value := range before {
		r.vars[name] = value
	}
}

// passed gives the arguments among the variables of a text.
func passed(vars map[string]string) (args []string) {
	for i := 1; ; i++ {
		arg, ok := vars[strconv.Itoa(i)]
		if !ok {
			return args
		}
		args = append(args, clean(arg))
	}
}

// bomb reports a function that calls itself in a pipe or in the background, and that nothing keeps from doing so.
func bomb(f *syntax.FuncDecl) bool {
	body, ok := f.Body.Cmd.(*syntax.Block)
	if !ok || calls(f.Body, "return") || calls(f.Body, "exit") {
		return false
	}
	return slices.ContainsFunc(body.Stmts, func(s *syntax.Stmt) bool {
		b, binary := s.Cmd.(*syntax.BinaryCmd)
		return (s.Background || binary && isPipe(b)) && calls(s, f.Name.Value)
	})
}

func calls(n syntax.Node, name string) (found bool) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.IfClause, *syntax.CaseClause:
			return name == "return" || name == "exit"
		case *syntax.CallExpr:
			found = found || len(n.Args) > 0 && n.Args[0].Lit() == name
		}
		return !found
	})
	return found
}
