package sh

import (
	"strings"
)

// Marks stand for characters that were not quoted, until a word is whole: what was quoted must not be taken for them.
const (
	markOpen  = '\uE000' // {
	markComma = '\uE001' // ,
	markClose = '\uE002' // }
)

// builder gathers the words that one run of characters becomes: an unquoted variable may hold several.
type builder struct {
	words []Word
	text  strings.Builder
	word  Word
	some  bool // there is a word, if an empty one
}

func (b *builder) add(text string) {
	b.text.WriteString(text)
	b.some = true
}

func (b *builder) open(text string) {
	b.add(text)
	b.word.Open = true
}

// split ends a word where a blank comes out of a variable.
func (b *builder) split() {
	if b.some {
		b.word.Text = b.text.String()
		b.words = append(b.words, b.word)
	}
	b.text.Reset()
	b.word, b.some = Word{}, false
}

// spread adds the value of an unquoted variable.
func (b *builder) spread(value string) {
	if value == "" {
		return
	}
	parts := strings.Fields(value)
	if len(parts) == 0 || strings.TrimLeft(value, " \t\n") != value {
		b.split()
	}
	for i, part := range parts {
		if i > 0 {
			b.split()
		}
		b.add(part)
		b.word.Glob = b.word.Glob || strings.ContainsAny(part, "*?[")
	}
	if len(parts) > 0 && strings.TrimRight(value, " \t\n") != value {
		b.split()
	}
}

// words reads from here to the next blank or operator.
func (p *parser) words() []Word {
	var b builder
	if strings.HasPrefix(p.src[p.pos:], "~") {
		p.tilde(&b)
	}
	for p.pos < len(p.src) {
		c := p.src[p.pos]
		if (c == '<' || c == '>') && strings.HasPrefix(p.src[p.pos+1:], "(") && !b.some {
			p.process(&b)
			continue
		}
		if strings.IndexByte(" \t\r\n;&|<>()", c) >= 0 {
			break
		}
		p.piece(&b, c)
	}
	b.split()
	return braces(b.words)
}

// piece reads one character, quoted part or expansion outside of quotes.
func (p *parser) piece(b *builder, c byte) {
	switch c {
	case '\'':
		p.pos++
		b.add(p.until('\''))
	case '"':
		p.pos++
		b.add("")
		p.double(b)
	case '\\':
		p.escaped(b)
	case '$':
		p.dollar(b, false)
	case '`':
		p.backquoted(b, false)
	case '{', ',', '}':
		p.pos++
		b.add(string(map[byte]rune{'{': markOpen, ',': markComma, '}': markClose}[c]))
	default:
		b.word.Glob = b.word.Glob || c == '*' || c == '?' || c == '['
		p.pos++
		b.add(string([]byte{c}))
	}
}

func (p *parser) escaped(b *builder) {
	if p.pos++; p.pos >= len(p.src) {
		b.add(`\`)
		return
	}
	if c := p.src[p.pos]; c != '\n' {
		b.add(string([]byte{c}))
	}
	p.pos++
}

// until reads to a character that nothing escapes.
func (p *parser) until(end byte) string {
	rest := p.src[p.pos:]
	i := strings.IndexByte(rest, end)
	if i < 0 {
		p.out.Broken, p.pos = true, len(p.src)
		return rest
	}
	p.pos += i + 1
	return rest[:i]
}

// double reads a double-quoted part whose opening quote has been read.
func (p *parser) double(b *builder) {
	inner := &parser{src: p.src, pos: p.pos, out: p.out, vars: p.vars, depth: p.depth}
	text := inner.insideQuotes(`"`)
	p.pos = inner.pos
	b.add(text.Text)
	b.word.Open = b.word.Open || text.Open
	b.word.Subs = append(b.word.Subs, text.Subs...)
}

// insideQuotes reads text in which only $, ` and \ mean something, up to the end that is given or of the whole text.
func (p *parser) insideQuotes(end string) Word {
	var b builder
	for p.pos < len(p.src) {
		c := p.src[p.pos]
		switch {
		case end != "" && c == end[0]:
			p.pos++
			b.word.Text = b.text.String()
			return b.word
		case c == '\\' && p.pos+1 < len(p.src) && strings.IndexByte("$`\"\\\n", p.src[p.pos+1]) >= 0:
			p.escaped(&b)
		case c == '$':
			p.dollar(&b, true)
		case c == '`':
			p.backquoted(&b, true)
		default:
			p.pos++
			b.add(string([]byte{c}))
		}
	}
	p.out.Broken = p.out.Broken || end != ""
	b.word.Text = b.text.String()
	return b.word
}

func (p *parser) tilde(b *builder) {
	rest := p.src[p.pos+1:]
	home, known := p.vars["HOME"]
	if known && (rest == "" || strings.IndexByte("/ \t\r\n;&|<>()", rest[0]) >= 0) {
		b.add(home)
		p.pos++
	}
}

// process reads <(…) or >(…).
func (p *parser) process(b *builder) {
	start := p.pos
	p.pos += 2
	subs := p.bracketed()
	b.open(p.src[start:p.pos])
	b.word.Subs = append(b.word.Subs, subs...)
}

// bracketed reads commands up to the bracket that closes them.
func (p *parser) bracketed() []int {
	from := len(p.out.Commands)
	if p.depth >= MaxDepth {
		p.out.Broken, p.pos = true, len(p.src)
		return nil
	}
	inner := &parser{src: p.src, pos: p.pos, out: p.out, vars: p.vars, depth: p.depth + 1}
	inner.list("", ')')
	p.pos = inner.pos
	return span(from, len(p.out.Commands))
}

// backquoted reads `…`.
func (p *parser) backquoted(b *builder, quoted bool) {
	start := p.pos
	p.pos++
	var text strings.Builder
	for p.pos < len(p.src) && p.src[p.pos] != '`' {
		if p.src[p.pos] == '\\' && p.pos+1 < len(p.src) && strings.IndexByte("`\\$", p.src[p.pos+1]) >= 0 {
			p.pos++
		}
		text.WriteByte(p.src[p.pos])
		p.pos++
	}
	p.out.Broken = p.out.Broken || p.pos >= len(p.src)
	p.pos = min(p.pos+1, len(p.src))
	p.substituted(b, p.nested(text.String()), p.src[start:p.pos], quoted)
}

// substituted adds the output of commands, which is known of very few.
func (p *parser) substituted(b *builder, subs []int, written string, quoted bool) {
	if len(subs) == 1 {
		if text, ok := p.says(p.out.Commands[subs[0]]); ok {
			if quoted {
				b.add(text)
			} else {
				b.spread(text)
			}
			b.word.Subs = append(b.word.Subs, subs...)
			return
		}
	}
	b.open(written)
	b.word.Subs = append(b.word.Subs, subs...)
}

// says gives what a command prints, where that is in the text: echo, printf of one word, which and command -v.
func (p *parser) says(c Command) (string, bool) {
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
