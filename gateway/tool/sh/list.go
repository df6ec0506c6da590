package sh

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

func (r *reader) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		r.stmt(s)
	}
}

// stmt reads a program with its words, or what is made of others. The redirections of the latter are a command without words.
func (r *reader) stmt(s *syntax.Stmt) {
	if r.full() {
		return
	}
	switch c := s.Cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		r.command(c.Assigns, c.Args, s.Redirs)
		return
	case *syntax.DeclClause:
		r.declare(c)
	case *syntax.BinaryCmd:
		r.binary(c)
	default:
		r.compound(c)
	}
	if len(s.Redirs) > 0 {
		r.command(nil, nil, s.Redirs)
	}
}

// binary reads two commands. Behind a pipe, the second reads from all commands of the part before it.
func (r *reader) binary(c *syntax.BinaryCmd) {
	from := len(r.out.Commands)
	r.stmt(c.X)
	if first, ok := c.X.Cmd.(*syntax.BinaryCmd); ok && isPipe(first) {
		from = r.part
	}
	middle := len(r.out.Commands)
	r.stmt(c.Y)
	if !isPipe(c) {
		return
	}
	for i := middle; i < len(r.out.Commands); i++ {
		r.out.Commands[i].From = append(r.out.Commands[i].From, span(from, middle)...)
	}
	r.part = middle
}

func isPipe(c *syntax.BinaryCmd) bool { return c.Op == syntax.Pipe || c.Op == syntax.PipeAll }

// compound reads all branches of a command that is made of others, a function's body too.
func (r *reader) compound(c syntax.Command) {
	if r.depth++; r.depth > MaxDepth {
		r.out.Broken = true
	} else {
		r.branches(c)
	}
	r.depth--
}

func (r *reader) branches(c syntax.Command) {
	switch c := c.(type) {
	case *syntax.Block:
		r.stmts(c.Stmts)
	case *syntax.Subshell:
		r.stmts(c.Stmts)
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			r.stmts(c.Cond)
			r.stmts(c.Then)
		}
	case *syntax.WhileClause:
		r.stmts(c.Cond)
		r.stmts(c.Do)
	case *syntax.ForClause:
		r.loop(c.Loop)
		r.stmts(c.Do)
	case *syntax.CaseClause:
		r.hidden(c.Word)
		for _, item := range c.Items {
			for _, pattern := range item.Patterns {
				r.hidden(pattern)
			}
			r.stmts(item.Stmts)
		}
	case *syntax.FuncDecl:
		r.define(c)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			r.stmt(c.Stmt)
		}
	case *syntax.CoprocClause:
		r.stmt(c.Stmt)
	default: // arithmetic and tests run nothing but their substitutions
		r.hidden(c)
	}
}

// loop gives the loop's variable all of its values at once: what is done with one of them is seen.
func (r *reader) loop(head syntax.Loop) {
	words, ok := head.(*syntax.WordIter)
	if !ok {
		r.hidden(head)
		return
	}
	if !words.InPos.IsValid() {
		return
	}
	values := Command{}
	for _, w := range words.Items {
		values.Words = append(values.Words, r.word(w)...)
	}
	for _, w := range values.Words {
		r.subs[words.Name.Value] = append(r.subs[words.Name.Value], w.Subs...)
	}
	r.set(words.Name.Value, expand.Variable{Set: true, Str: values.Text()})
}

// command reads a program with its words and redirections. Its place is taken first, so that commands inside its words come behind it.
func (r *reader) command(assigns []*syntax.Assign, args []*syntax.Word, redirs []*syntax.Redirect) {
	at := len(r.out.Commands)
	r.out.Commands = append(r.out.Commands, Command{})
	var c Command
	for _, a := range assigns {
		c.Assigned = append(c.Assigned, r.assign(a).Text)
	}
	for _, w := range args {
		c.Words = append(c.Words, r.word(w)...)
	}
	for _, redirect := range redirs {
		r.redirect(&c, redirect)
	}
	r.out.Commands[at] = c
	r.call(c.Words)
}

// declare reads export, declare, local and their like.
func (r *reader) declare(d *syntax.DeclClause) {
	at := len(r.out.Commands)
	r.out.Commands = append(r.out.Commands, Command{})
	c := Command{Words: []Word{{Text: d.Variant.Value}}}
	for _, a := range d.Args {
		c.Words = append(c.Words, r.assign(a))
	}
	r.out.Commands[at] = c
}

// assign sets a variable and gives the word that does.
func (r *reader) assign(a *syntax.Assign) Word {
	if a.Name == nil {
		w := r.one(a.Value)
		if name, value, ok := strings.Cut(w.Text, "="); ok && syntax.ValidName(name) { // declare "NAME=VALUE"
			r.set(name, expand.Variable{Set: true, Str: value})
		}
		return w
	}
	if a.Naked {
		return Word{Text: a.Name.Value}
	}
	if a.Index != nil {
		r.hidden(a.Index)
	}
	name, value := a.Name.Value, expand.Variable{Set: true}
	var w Word
	if a.Array != nil {
		value.List = []string{}
		for _, e := range a.Array.Elems {
			if e.Value != nil {
				for _, v := range r.word(e.Value) {
					value.List = append(value.List, v.Text)
				}
			}
		}
		value.Str = strings.Join(value.List, " ")
	} else if a.Value != nil {
		w = r.one(a.Value)
		value.Str = w.Text
	}
	w.Text = name + "=" + value.Str
	if before := r.vars[name]; a.Append {
		value.Str, value.List = before.Str+value.Str, slices.Concat(before.List, value.List)
	}
	if r.subs[name] = append(r.subs[name], w.Subs...); !r.loose[name] {
		r.subs[name] = w.Subs
	}
	r.set(name, value)
	return w
}

var leadingTabs = regexp.MustCompile(`(?m)^\t+`)

func (r *reader) redirect(c *Command, redirect *syntax.Redirect) {
	target := r.one(redirect.Word)
	switch op := redirect.Op.String(); op {
	case "<<":
		c.Input += r.document(redirect)
	case "<<-":
		c.Input += leadingTabs.ReplaceAllString(r.document(redirect), "")
	case "<<<":
		c.Input += target.Text + "\n"
		c.From = append(c.From, target.Subs...)
	case "<&":
	case "<":
		c.From = append(c.From, target.Subs...)
		fallthrough
	default:
		if op != ">&" || strings.Trim(target.Text, "0123456789-") != "" {
			c.Redirects = append(c.Redirects, Redirect{op, target})
		}
	}
}

// document gives the text of a here-document, expanded where its end was not quoted.
func (r *reader) document(redirect *syntax.Redirect) string {
	if redirect.Hdoc == nil {
		return ""
	}
	if end := redirect.Word.Lit(); end == "" || strings.Contains(end, `\`) {
		return redirect.Hdoc.Lit()
	}
	text, _ := r.expand(redirect.Hdoc, true)
	return text[0].Text
}
