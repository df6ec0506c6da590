package sh

import (
	"strconv"
	"strings"
)

// dollar reads an expansion.
func (p *parser) dollar(b *builder, quoted bool) {
	rest := p.src[p.pos:]
	switch {
	case strings.HasPrefix(rest, "$(("):
		p.arithmetic(b)
	case strings.HasPrefix(rest, "$("):
		start := p.pos
		p.pos += 2
		subs := p.bracketed()
		p.substituted(b, subs, p.src[start:p.pos], quoted)
	case strings.HasPrefix(rest, "${"):
		p.braced(b, quoted)
	case !quoted && strings.HasPrefix(rest, "$'"):
		p.pos += 2
		b.add(p.ansi())
	case !quoted && strings.HasPrefix(rest, `$"`):
		p.pos += 2
		b.add("")
		p.double(b)
	default:
		p.named(b, rest, quoted)
	}
}

func (p *parser) named(b *builder, rest string, quoted bool) {
	end := 1 + nameLen(rest[1:])
	if end == 1 && len(rest) > 1 && strings.IndexByte("0123456789@*#?$!-", rest[1]) >= 0 {
		end = 2
	}
	p.pos += end
	if end == 1 {
		b.add("$")
		return
	}
	p.variable(b, rest[1:end], rest[:end], quoted)
}

// variable adds a value that is known, or the text as it was written. $IFS is what separates words.
func (p *parser) variable(b *builder, name, written string, quoted bool) {
	value, known := p.vars[name]
	switch {
	case name == "IFS" && !known && quoted:
		b.add(" ")
	case name == "IFS" && !known:
		b.split()
	case known && quoted:
		b.add(value)
		b.word.Open = b.word.Open || strings.ContainsAny(value, "$`")
	case known:
		b.spread(value)
		b.word.Open = b.word.Open || strings.ContainsAny(value, "$`")
	case len(name) == 1 && strings.Contains("0123456789@*", name):
		b.word.Open = true // of a script that has none they are empty
	default:
		b.open(written)
	}
}

// braced reads ${NAME}, with a default value where it has one. Any other change of the value leaves it open.
func (p *parser) braced(b *builder, quoted bool) {
	start := p.pos
	depth := 0
	for ; p.pos < len(p.src); p.pos++ {
		switch p.src[p.pos] {
		case '\\':
			p.pos++
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth == 0 && p.pos > start+1 {
			break
		}
	}
	p.out.Broken = p.out.Broken || p.pos >= len(p.src)
	p.pos = min(p.pos+1, len(p.src))
	written := p.src[start:p.pos]
	body := strings.TrimSuffix(strings.TrimPrefix(written, "${"), "}")
	end := nameLen(body)
	name, change := body[:end], body[end:]
	switch _, known := p.vars[name]; {
	case change == "" && name != "", name == "IFS":
		p.variable(b, name, written, quoted)
	case name != "" && !known && hasDefault(change):
		p.fallback(b, strings.TrimLeft(change, ":-=+"), quoted)
	case known && hasDefault(change) && !strings.HasPrefix(strings.TrimPrefix(change, ":"), "+"):
		p.variable(b, name, written, quoted)
	default:
		b.open(written)
		b.word.Subs = append(b.word.Subs, p.hidden(change)...)
	}
}

func hasDefault(change string) bool {
	change = strings.TrimPrefix(change, ":")
	return change != "" && strings.IndexByte("-=+", change[0]) >= 0
}

// fallback adds the text that stands in for a variable nobody has set.
func (p *parser) fallback(b *builder, text string, quoted bool) {
	inner := &parser{src: text, out: p.out, vars: p.vars, depth: p.depth + 1}
	if inner.depth > MaxDepth {
		p.out.Broken = true
		return
	}
	w := inner.insideQuotes("")
	w.Text = strings.Trim(w.Text, `'"`)
	if quoted {
		b.add(w.Text)
	} else {
		b.spread(w.Text)
	}
	b.word.Open = true
	b.word.Subs = append(b.word.Subs, w.Subs...)
}

// hidden finds substitutions inside an expansion that is not followed.
func (p *parser) hidden(text string) []int {
	from := len(p.out.Commands)
	inner := &parser{src: text, out: p.out, vars: p.vars, depth: p.depth + 1}
	if inner.depth > MaxDepth {
		p.out.Broken = true
		return nil
	}
	inner.insideQuotes("")
	return span(from, len(p.out.Commands))
}

// arithmetic passes $((…)), whose value nobody computes here.
func (p *parser) arithmetic(b *builder) {
	start, depth := p.pos, 0
	for p.pos++; p.pos < len(p.src); p.pos++ {
		switch p.src[p.pos] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			break
		}
	}
	p.out.Broken = p.out.Broken || p.pos >= len(p.src)
	p.pos = min(p.pos+1, len(p.src))
	b.open(p.src[start:p.pos])
	b.word.Subs = append(b.word.Subs, p.hidden(p.src[start+3:p.pos])...)
}

// ansi reads the rest of $'…', where escapes name bytes.
func (p *parser) ansi() string {
	var out strings.Builder
	for p.pos < len(p.src) && p.src[p.pos] != '\'' {
		c := p.src[p.pos]
		p.pos++
		if c != '\\' || p.pos >= len(p.src) {
			out.WriteByte(c)
			continue
		}
		p.ansiEscape(&out)
	}
	p.out.Broken = p.out.Broken || p.pos >= len(p.src)
	p.pos = min(p.pos+1, len(p.src))
	return out.String()
}

var ansiLetters = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', 'a': 7, 'b': 8, 'e': 27, 'E': 27, 'f': 12, 'v': 11}

func (p *parser) ansiEscape(out *strings.Builder) {
	c := p.src[p.pos]
	digits, base, most := "0123456789abcdefABCDEF", 16, 0
	switch c {
	case 'x':
		most = 2
	case 'u':
		most = 4
	case 'U':
		most = 8
	case '0', '1', '2', '3', '4', '5', '6', '7':
		digits, base, most = "01234567", 8, 3
		p.pos-- // the first digit counts
	}
	p.pos++
	if most == 0 {
		if letter, ok := ansiLetters[c]; ok {
			c = letter
		}
		out.WriteByte(c)
		return
	}
	n := 0
	for n < most && p.pos+n < len(p.src) && strings.IndexByte(digits, p.src[p.pos+n]) >= 0 {
		n++
	}
	value, err := strconv.ParseUint(p.src[p.pos:p.pos+n], base, 32)
	p.pos += n
	switch {
	case err != nil:
	case c == 'u' || c == 'U':
		out.WriteRune(rune(value))
	default:
		out.WriteByte(byte(value))
	}
}
