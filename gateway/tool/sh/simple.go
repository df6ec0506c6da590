package sh

import (
	"slices"
	"strings"
)

// simple reads a program with its words and redirections.
func (p *parser) simple() {
	at := len(p.out.Commands)
	p.out.Commands = append(p.out.Commands, Command{})
	var c Command // its place is taken first, so that commands inside its words come behind it
	for p.pos < len(p.src) {
		p.blanks()
		if p.pos >= len(p.src) {
			break
		}
		if p.redirectAhead() {
			p.redirect(&c, at)
			continue
		}
		if strings.IndexByte(";\n&|()", p.src[p.pos]) >= 0 {
			break
		}
		if p.src[p.pos] == '#' {
			p.comment()
			break
		}
		for _, w := range p.words() {
			p.take(&c, w)
		}
		if len(c.Words) == 1 && p.emptyBrackets() { // a function's head: its body is seen as if it were run here
			c.Words = nil
			p.lines()
			p.out.Commands[at] = c
			p.element()
			return
		}
	}
	c.From = append(c.From, p.out.Commands[at].From...)
	p.out.Commands[at] = c
}

// assigners are programs whose words may set variables too.
var assigners = []string{"export", "declare", "local", "readonly", "typeset"}

// take adds a word, or notes what it sets.
func (p *parser) take(c *Command, w Word) {
	name, value, sets := strings.Cut(w.Text, "=")
	grows := strings.HasSuffix(name, "+")
	name = strings.TrimSuffix(name, "+")
	before := len(c.Words) == 0
	if sets && isName(name) && (before || slices.Contains(assigners, c.Words[0].Text)) {
		if grows {
			value = p.vars[name] + value
		}
		p.vars[name] = value
		if before {
			c.Assigned = append(c.Assigned, w.Text)
			return
		}
	}
	c.Words = append(c.Words, w)
}

func isName(s string) bool { return s != "" && nameLen(s) == len(s) }

// nameLen says how much of the beginning of s is the name of a variable.
func nameLen(s string) int {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return i
		}
	}
	return len(s)
}

// redirectAhead reports whether a redirection stands here, with its descriptor if it has one.
func (p *parser) redirectAhead() bool {
	rest := strings.TrimLeft(p.src[p.pos:], "0123456789")
	if rest == "" {
		return false
	}
	digits := len(p.src) - p.pos - len(rest)
	switch rest[0] {
	case '<', '>':
		return !(digits == 0 && strings.HasPrefix(rest[1:], "(")) // <(…) is a word
	case '&':
		return digits == 0 && strings.HasPrefix(rest, "&>")
	}
	return false
}

// operators, the longest first.
var operators = []string{"&>>", "&>", "<<<", "<<-", "<<", "<&", "<>", ">>", ">&", ">|", "<", ">"}

func (p *parser) redirect(c *Command, at int) {
	p.pos += len(p.src[p.pos:]) - len(strings.TrimLeft(p.src[p.pos:], "0123456789"))
	op := ""
	for _, o := range operators {
		if strings.HasPrefix(p.src[p.pos:], o) {
			op = o
			break
		}
	}
	p.pos += len(op)
	p.blanks()
	quoted := p.pos < len(p.src) && strings.IndexByte(`'"\`, p.src[p.pos]) >= 0
	words := p.words()
	if len(words) == 0 {
		p.out.Broken = true
		return
	}
	target := words[0]
	switch op {
	case "<<", "<<-":
		p.docs = append(p.docs, pendingDoc{command: at, end: target.Text, dashed: op == "<<-", expanded: !quoted})
	case "<<<":
		c.Input += target.Text + "\n"
		c.From = append(c.From, target.Subs...)
	case "<&":
	case ">&":
		if strings.Trim(target.Text, "0123456789-") != "" {
			c.Redirects = append(c.Redirects, Redirect{">&", target})
		}
	default:
		c.Redirects = append(c.Redirects, Redirect{op, target})
		if op == "<" {
			c.From = append(c.From, target.Subs...)
		}
	}
	c.Words = append(c.Words, words[1:]...) // an expansion that is several words here is an error there
}

// documents reads the here-documents that the line before has announced.
func (p *parser) documents() {
	docs := p.docs
	p.docs = nil
	for _, d := range docs {
		text, whole := p.document(d)
		p.out.Broken = p.out.Broken || !whole
		c := &p.out.Commands[d.command]
		c.Input += text
		if d.expanded {
			inner := &parser{src: text, out: p.out, vars: p.vars, depth: p.depth + 1}
			inner.insideQuotes("")
		}
	}
}

func (p *parser) document(d pendingDoc) (text string, whole bool) {
	var b strings.Builder
	for p.pos < len(p.src) {
		line, rest, _ := strings.Cut(p.src[p.pos:], "\n")
		p.pos = len(p.src) - len(rest)
		if d.dashed {
			line = strings.TrimLeft(line, "\t")
		}
		if strings.TrimRight(line, "\r") == d.end {
			return b.String(), true
		}
		b.WriteString(line + "\n")
	}
	return b.String(), false
}
