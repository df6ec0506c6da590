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
	followed := &syntax.Word{Parts: r.follow(w.Parts, document)} // the text itself may be read again: it stays as it is
	config := &expand.Config{Env: environ{r}, CmdSubst: r.substituted, ProcSubst: r.process, ExtGlob: true}
	fields := expand.FieldsSeq(config, followed)
	if document {
		fields = func(yield func(string, error) bool) { yield(expand.Document(config, followed)) }
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
	if open := slices.ContainsFunc(words, func(w Word) bool { return w.Open }); open { // which of them is, nobody can say
		for i := range words {
			words[i].Open = true
		}
	}
	if len(words) == 1 && words[0].Open {
		words[0].Unset = r.unset(w)
	}
	return words, true
}

// ownVariables begin the names of those that a shell sets by itself.
var ownVariables = regexp.MustCompile(`^(_|PWD|OLDPWD|UID|EUID|PPID|GROUPS|HOST.*|MACHTYPE|OSTYPE|S?RANDOM|SECONDS|EPOCH.*|LINENO|SHELL.*|SHLVL|BASH.*|OPT.*|REPLY|MAPFILE|PIPESTATUS|FUNCNAME|DIRSTACK|COLUMNS|LINES|COPROC.*|HIST.*)$`)

// unset reports that all that is open in a word is variables that nothing sets, so that a shell has no text for them.
func (r *reader) unset(w *syntax.Word) bool {
	all := true
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.ArithmExp:
			all = false
		case *syntax.ParamExp:
			name := n.Param.Value
			_, known := r.vars[name]
			all = all && n.Exp == nil && n.Index == nil && n.Slice == nil && n.Repl == nil && !n.Excl && !n.Length && !known && r.within == 0 &&
				syntax.ValidName(name) && !r.loose[name] && !r.loose[anyVariable] && !ownVariables.MatchString(name)
		}
		return all
	})
	return all
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
				out = append(out, &syntax.Lit{ValuePos: part.ValuePos, ValueEnd: part.ValueEnd, Value: sequence.ReplaceAllString(part.Value, `\{$1`)})
				continue
			}
		case *syntax.DblQuoted:
			within := *part
			within.Parts = r.follow(part.Parts, true)
			out = append(out, &within)
			continue
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

// param follows $NAME, ${NAME}, ${NAME:-default} and elements of arrays; any other change of a value leaves it open, and so does an
// alternative to a value that nobody knows. $IFS is what separates words, however it is written.
func (r *reader) param(p *syntax.ParamExp, within bool) []syntax.WordPart {
	name := p.Param.Value
	value, known := r.vars[name]
	loose := r.loose[name] || r.loose[anyVariable] && syntax.ValidName(name)
	index, _ := p.Index.(*syntax.Word)
	op := syntax.ParExpOperator(0)
	if p.Exp != nil {
		op = p.Exp.Op
	}
	switch {
	case name == "IFS":
		return []syntax.WordPart{&syntax.ParamExp{Short: true, Param: p.Param}}
	case op == syntax.OtherParamOps:
		r.out.Broken = true // ${NAME@P} runs what is in the value
		return []syntax.WordPart{r.open(p)}
	case p.Excl || p.Length || p.Slice != nil || p.Repl != nil || p.Index != nil && (index == nil || index.Lit() == "" || value.List == nil):
		return []syntax.WordPart{r.open(p)}
	case p.Exp == nil && known:
	case p.Exp == nil && strings.Contains("0123456789@*", name) && r.within == 0:
		return []syntax.WordPart{r.unsaid(within, nil)} // of a script that has none they are empty
	case p.Exp == nil || !slices.Contains(defaults, op), (!known || loose) && slices.Contains(alternatives, op):
		return []syntax.WordPart{r.open(p)}
	}
	parts := []syntax.WordPart{r.followed(p, known)}
	if !known || loose || strings.ContainsAny(value.Str, "$`") {
		parts = append([]syntax.WordPart{r.unsaid(within, r.subs[name])}, parts...)
	}
	return parts
}

// followed is a parameter for the library, which takes the default of what is not known. What it would assign is noted here.
func (r *reader) followed(p *syntax.ParamExp, known bool) syntax.WordPart {
	out := *p
	if p.Exp == nil {
		return &out
	}
	exp := *p.Exp
	if exp.Word != nil {
		if assigns := slices.Contains(assignments, exp.Op); assigns {
			r.set(p.Param.Value, expand.Variable{Set: true, Str: r.one(exp.Word).Text})
		}
		exp.Word = &syntax.Word{Parts: r.follow(exp.Word.Parts, true)}
	}
	switch {
	case !known:
		exp.Op = syntax.DefaultUnset
	case exp.Op == syntax.AssignUnsetOrNull:
		exp.Op = syntax.DefaultUnsetOrNull
	}
	out.Exp = &exp
	return &out
}

// unsaid makes a word open and adds nothing to it.
func (r *reader) unsaid(within bool, subs []int) syntax.WordPart {
	return &syntax.SglQuoted{Value: r.token(Word{Open: true, Subs: subs}, !within)}
}

var (
	assignments  = []syntax.ParExpOperator{syntax.AssignUnset, syntax.AssignUnsetOrNull}
	alternatives = []syntax.ParExpOperator{syntax.AlternateUnset, syntax.AlternateUnsetOrNull}
	defaults     = slices.Concat(assignments, alternatives, []syntax.ParExpOperator{syntax.DefaultUnset, syntax.DefaultUnsetOrNull})
)

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
		if said, ok := r.out.Commands[subs[0]].Prints(); ok {
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
