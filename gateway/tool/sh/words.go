package sh

import (
	"io"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// firstToken is the first of the characters that stand, while a word is expanded, for what is not known of it. They are private ones,
// which no text has after clean.
const firstToken = '\U000F0000'

// token is what such a character stands for.
type token struct {
	Word
	bare bool // where nothing else is in it, it makes no word
}

func clean(text string) string {
	return strings.Map(func(c rune) rune {
		if c >= firstToken {
			return '\uFFFD'
		}
		return c
	}, text)
}

func (r *reader) token(w Word, bare bool) string {
	if len(r.tokens) >= 0xFFFF {
		r.out.Broken = true
		return "$"
	}
	r.tokens = append(r.tokens, token{w, bare})
	return string(firstToken + rune(len(r.tokens)-1))
}

// word gives the words that one becomes: none for a variable that is empty, several for one that holds blanks, or for braces.
func (r *reader) word(w *syntax.Word) []Word {
	words, ok := r.expand(w, false)
	if !ok {
		r.out.Broken = true
	}
	return words
}

// one gives a word where there can be only one.
func (r *reader) one(w *syntax.Word) Word {
	var one Word
	for i, v := range r.word(w) {
		if i > 0 {
			one.Text += " "
		}
		one.Text += v.Text
		one.Open, one.Glob, one.Subs = one.Open || v.Open, one.Glob || v.Glob, append(one.Subs, v.Subs...)
	}
	return one
}

// expand gives the words that one becomes, or all of it as one for a here-document. It is false where there are too many, or none that
// the library can tell.
func (r *reader) expand(w *syntax.Word, document bool) (words []Word, ok bool) {
	bare := slices.ContainsFunc(w.Parts, func(part syntax.WordPart) bool { return !quoted(part) })
	written := r.written(w)
	if !document && braces(w) > maxBraces {
		return []Word{{Text: written, Open: true, Subs: r.hidden(w)}}, false
	}
	w.Parts = r.follow(w.Parts, document)
	config := &expand.Config{Env: environ{r}, CmdSubst: r.substituted, ProcSubst: r.process, ExtGlob: true}
	fields := expand.FieldsSeq(config, w)
	if document {
		fields = func(yield func(string, error) bool) { yield(expand.Document(config, w)) }
	}
	for field, err := range fields {
		r.words, r.size = r.words+1, r.size+len(field)
		if err != nil || r.words > maxWords || r.size > maxSize {
			return append(words, Word{Text: written, Open: true, Subs: r.hidden(w)}), false
		}
		if v, some := r.resolve(field); some || document {
			v.Glob = bare && strings.ContainsAny(v.Text, "*?[")
			words = append(words, v)
		}
	}
	return words, true
}

// braces counts those that would be expanded: each may double the words.
func braces(w *syntax.Word) (n int) {
	for _, part := range w.Parts {
		if lit, ok := part.(*syntax.Lit); ok {
			n += strings.Count(lit.Value, "{")
		}
	}
	return n
}

func quoted(part syntax.WordPart) bool {
	switch part.(type) {
	case *syntax.SglQuoted, *syntax.DblQuoted:
		return true
	}
	return false
}

// resolve puts what tokens stand for into their places.
func (r *reader) resolve(field string) (w Word, some bool) {
	some = field == ""
	var text strings.Builder
	for _, c := range field {
		i := int(c - firstToken)
		if i < 0 || i >= len(r.tokens) {
			text.WriteRune(c)
			continue
		}
		t := r.tokens[i]
		text.WriteString(t.Text)
		some = some || !t.bare
		w.Open, w.Subs = w.Open || t.Open, append(w.Subs, t.Subs...)
	}
	w.Text = text.String()
	return w, some || w.Text != ""
}

// sequence is {1..9}, which is left as it stands: no rule asks about numbers, and there may be very many.
var sequence = regexp.MustCompile(`\{(-?\d+\.\.-?\d+)`)

// follow replaces by tokens what is known only when it runs.
func (r *reader) follow(parts []syntax.WordPart, within bool) []syntax.WordPart {
	out := make([]syntax.WordPart, 0, len(parts))
	for _, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			if !within {
				part.Value = sequence.ReplaceAllString(part.Value, `\{$1`)
			}
		case *syntax.DblQuoted:
			part.Parts = r.follow(part.Parts, true)
		case *syntax.ArithmExp:
			out = append(out, r.open(part))
			continue
		case *syntax.ParamExp:
			out = append(out, r.param(part, within)...)
			continue
		}
		out = append(out, part)
	}
	return out
}

// open is a part whose value nobody computes here.
func (r *reader) open(part syntax.WordPart) syntax.WordPart {
	return &syntax.SglQuoted{Value: r.token(Word{Text: r.written(part), Open: true, Subs: r.hidden(part)}, false)}
}

// param follows $NAME, ${NAME}, ${NAME:-default} and elements of arrays; any other change of a value leaves it open. $IFS is what
// separates words, however it is written.
func (r *reader) param(p *syntax.ParamExp, within bool) []syntax.WordPart {
	name := p.Param.Value
	value, known := r.vars[name]
	index, _ := p.Index.(*syntax.Word)
	switch {
	case name == "IFS":
		return []syntax.WordPart{&syntax.ParamExp{Short: true, Param: p.Param}}
	case p.Excl || p.Length || p.Slice != nil || p.Repl != nil || p.Index != nil && (index == nil || index.Lit() == "" || value.List == nil):
		return []syntax.WordPart{r.open(p)}
	case p.Exp == nil && known:
	case p.Exp == nil && strings.Contains("0123456789@*", name):
		return []syntax.WordPart{r.unsaid(within)} // of a script that has none they are empty
	case p.Exp == nil || !slices.Contains(defaults, p.Exp.Op):
		return []syntax.WordPart{r.open(p)}
	case !known:
		p.Exp.Op = syntax.DefaultUnset
	case p.Exp.Op == syntax.AssignUnsetOrNull:
		p.Exp.Op = syntax.DefaultUnsetOrNull
	}
	if p.Exp != nil && p.Exp.Word != nil {
		p.Exp.Word.Parts = r.follow(p.Exp.Word.Parts, true)
	}
	if !known || strings.ContainsAny(value.Str, "$`") {
		return []syntax.WordPart{r.unsaid(within), p}
	}
	return []syntax.WordPart{p}
}

// unsaid makes a word open and adds nothing to it.
func (r *reader) unsaid(within bool) syntax.WordPart {
	return &syntax.SglQuoted{Value: r.token(Word{Open: true}, !within)}
}

var defaults = []syntax.ParExpOperator{
	syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull, syntax.AlternateUnset, syntax.AlternateUnsetOrNull,
}

// environ gives the library the variables that are known, and keeps it from looking up anything itself.
type environ struct{ r *reader }

func (e environ) Each(func(string, expand.Variable) bool) {}

func (e environ) Get(name string) expand.Variable {
	value := e.r.vars[name]
	user, other := strings.CutPrefix(name, "HOME ")
	switch {
	case name == "IFS": // it may be set for one command only: blanks separate in any case
		return expand.Variable{Set: true, Kind: expand.String, Str: " \t\n" + value.Str}
	case other:
		return expand.Variable{Set: true, Kind: expand.String, Str: "~" + user}
	}
	return value
}

// substituted stands in for the output of commands, which is known of very few.
func (r *reader) substituted(out io.Writer, c *syntax.CmdSubst) error {
	subs := r.nested(c, c.Stmts)
	w, text := Word{Text: r.written(c), Open: true, Subs: subs}, ""
	if len(subs) == 1 {
		if said, ok := says(r.out.Commands[subs[0]]); ok {
			w, text = Word{Subs: subs}, strings.TrimSpace(said)
		}
	}
	_, err := io.WriteString(out, r.token(w, true)+text)
	return err
}

func (r *reader) process(p *syntax.ProcSubst) (string, error) {
	return r.token(Word{Text: r.written(p), Open: true, Subs: r.nested(p, p.Stmts)}, false), nil
}

// nested reads the commands of a substitution and gives their places.
func (r *reader) nested(n syntax.Node, list []*syntax.Stmt) []int {
	if subs, ok := r.seen[n]; ok {
		return subs
	}
	from := len(r.out.Commands)
	if r.depth++; r.depth > MaxDepth {
		r.out.Broken = true
	} else {
		r.stmts(list)
	}
	r.depth--
	r.seen[n] = span(from, len(r.out.Commands))
	return r.seen[n]
}

// hidden reads the substitutions inside of what is not followed.
func (r *reader) hidden(n syntax.Node) (subs []int) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			subs = append(subs, r.nested(n, n.Stmts)...)
			return false
		case *syntax.ProcSubst:
			subs = append(subs, r.nested(n, n.Stmts)...)
			return false
		}
		return true
	})
	return subs
}

// says gives what a command prints, where that is in the text: echo, printf of one word, which and command -v.
func says(c Command) (string, bool) {
	if len(c.Words) < 2 || len(c.Redirects) > 0 {
		return "", false
	}
	args := c.Words[1:]
	switch name := c.Words[0].Text; {
	case name == "which", name == "command" && args[0].Text == "-v":
		return args[len(args)-1].Text, !args[len(args)-1].Open
	case name == "printf" && len(args) > 1:
		return "", false
	case name != "echo" && name != "printf":
		return "", false
	}
	words := make([]string, 0, len(args))
	for _, w := range args {
		if w.Open {
			return "", false
		}
		if len(words) > 0 || !strings.HasPrefix(w.Text, "-") {
			words = append(words, w.Text)
		}
	}
	return strings.Join(words, " "), true
}
