package sh

import (
	"slices"
	"strings"
)

// closers ends each compound command; what stands between is a list of commands.
var closers = map[string]string{"{": "}", "if": "fi", "while": "done", "until": "done", "for": "done", "select": "done", "case": "esac"}

// skipped are reserved words after which a command stands again.
var skipped = []string{"!", "then", "else", "elif", "do", "time", "coproc"}

// list reads commands until the word or the character that ends it, or the end of the text.
func (p *parser) list(word string, char byte) {
	for !p.full() {
		p.separators()
		switch {
		case p.pos >= len(p.src):
			p.out.Broken = p.out.Broken || word != "" || char != 0
			return
		case char != 0 && p.src[p.pos] == char:
			p.pos++
			return
		case p.src[p.pos] == ')':
			p.pos++ // of a case's pattern that was not understood, or stray
			p.out.Broken = true
		case word != "" && p.bare() == word:
			p.pos += len(word)
			return
		default:
			before := p.pos
			p.pipeline()
			if p.pos == before {
				p.pos++ // whatever it is, it is passed
			}
		}
	}
	p.pos = len(p.src)
}

// separators passes blanks, ends of lines and what stands between two commands.
func (p *parser) separators() {
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; {
		case c == '\n':
			p.pos++
			p.documents()
		case c == ' ' || c == '\t' || c == '\r' || c == ';' || c == '&':
			p.pos++
		case c == '\\' && strings.HasPrefix(p.src[p.pos:], "\\\n"):
			p.pos += 2
		case c == '#':
			p.comment()
		default:
			return
		}
	}
}

func (p *parser) comment() {
	end := strings.IndexByte(p.src[p.pos:], '\n')
	if end < 0 {
		p.pos = len(p.src)
		return
	}
	p.pos += end
}

func (p *parser) blanks() {
	for p.pos < len(p.src) {
		switch {
		case p.src[p.pos] == ' ' || p.src[p.pos] == '\t' || p.src[p.pos] == '\r':
			p.pos++
		case strings.HasPrefix(p.src[p.pos:], "\\\n"):
			p.pos += 2
		default:
			return
		}
	}
}

// pipeline reads commands joined by |. Each reads from all commands of the part before it.
func (p *parser) pipeline() {
	var feed []int
	for {
		start := len(p.out.Commands)
		p.element()
		part := span(start, len(p.out.Commands))
		for _, i := range part {
			p.out.Commands[i].From = append(p.out.Commands[i].From, feed...)
		}
		p.blanks()
		rest := p.src[p.pos:]
		if !strings.HasPrefix(rest, "|") || strings.HasPrefix(rest, "||") {
			p.pos += len(rest) - len(strings.TrimLeft(rest, "|"))
			return
		}
		p.pos++
		p.pos += len(p.src[p.pos:]) - len(strings.TrimPrefix(p.src[p.pos:], "&"))
		p.lines()
		feed = part
	}
}

// lines passes the ends of lines that may follow a pipe.
func (p *parser) lines() {
	for {
		p.blanks()
		if p.pos >= len(p.src) || p.src[p.pos] != '\n' {
			return
		}
		p.pos++
		p.documents()
	}
}

// element reads one part of a pipeline: a compound command, a subshell, or a program with its words.
func (p *parser) element() {
	for {
		p.blanks()
		if p.pos >= len(p.src) {
			return
		}
		if p.src[p.pos] == '(' {
			p.subshell()
			return
		}
		word := p.bare()
		if !slices.Contains(skipped, word) {
			break
		}
		p.pos += len(word)
	}
	word := p.bare()
	switch {
	case word == "function":
		p.pos += len(word)
		p.blanks()
		p.pos += len(p.bare())
		p.emptyBrackets()
		p.lines()
		p.element()
	case closers[word] != "":
		p.compound(word)
	default:
		p.simple()
	}
}

func (p *parser) subshell() {
	p.pos++
	if p.depth++; p.depth > MaxDepth {
		p.out.Broken, p.pos = true, len(p.src)
		return
	}
	p.list("", ')')
	p.depth--
	p.trailing()
}

func (p *parser) compound(word string) {
	p.pos += len(word)
	if p.depth++; p.depth > MaxDepth {
		p.out.Broken, p.pos = true, len(p.src)
		return
	}
	switch word {
	case "for", "select":
		p.loopHead()
	case "case":
		p.cases()
	}
	if word != "case" {
		p.list(closers[word], 0)
	}
	p.depth--
	p.trailing()
}

// trailing reads the redirections after a subshell or a compound command, as a command without words.
func (p *parser) trailing() {
	p.blanks()
	if p.pos < len(p.src) && strings.IndexByte("<>&0123456789", p.src[p.pos]) >= 0 && p.redirectAhead() {
		p.simple()
	}
}

// loopHead gives the loop's variable all of its values at once: what is done with one of them is seen.
func (p *parser) loopHead() {
	p.blanks()
	if strings.HasPrefix(p.src[p.pos:], "((") {
		end := strings.Index(p.src[p.pos:], "))")
		if end < 0 {
			p.out.Broken, p.pos = true, len(p.src)
			return
		}
		p.pos += end + 2
		return
	}
	name := p.bare()
	p.pos += len(name)
	p.lines()
	if p.bare() != "in" {
		return
	}
	p.pos += len("in")
	var values []string
	for p.blanks(); p.pos < len(p.src) && strings.IndexByte(";\n&|<>()", p.src[p.pos]) < 0; p.blanks() {
		for _, w := range p.words() {
			values = append(values, w.Text)
		}
	}
	if isName(name) {
		p.vars[name] = strings.Join(values, " ")
	}
}

// cases reads the patterns of a case, which are no commands, and the commands behind each.
func (p *parser) cases() {
	p.blanks()
	p.words()
	p.lines()
	if p.bare() == "in" {
		p.pos += len("in")
	}
	for !p.full() {
		p.separators()
		if p.bare() == "esac" {
			p.pos += len("esac")
			return
		}
		end := strings.IndexByte(p.src[p.pos:], ')')
		if end < 0 {
			p.out.Broken, p.pos = true, len(p.src)
			return
		}
		p.pos += end + 1
		p.branch()
	}
}

// branch reads the commands of one pattern up to ;; or esac.
func (p *parser) branch() {
	for !p.full() {
		for p.blanks(); p.pos < len(p.src) && (p.src[p.pos] == '\n' || p.src[p.pos] == '#'); p.blanks() {
			if p.src[p.pos] == '#' {
				p.comment()
				continue
			}
			p.pos++
			p.documents()
		}
		switch rest := p.src[p.pos:]; {
		case rest == "":
			p.out.Broken = true
			return
		case strings.HasPrefix(rest, ";;"), strings.HasPrefix(rest, ";&"):
			p.pos += 2
			return
		case p.bare() == "esac":
			return
		case rest[0] == ';' || rest[0] == '&' || rest[0] == ')':
			p.pos++
		default:
			before := p.pos
			p.pipeline()
			if p.pos == before {
				p.pos++
			}
		}
	}
}

// bare gives the plain word that stands here, without moving; "" when it is quoted or none.
func (p *parser) bare() string {
	rest := p.src[p.pos:]
	end := strings.IndexAny(rest, " \t\r\n;&|<>()")
	if end < 0 {
		end = len(rest)
	}
	if strings.ContainsAny(rest[:end], "'\"\\$`") {
		return ""
	}
	return rest[:end]
}

// emptyBrackets passes the () of a function's head.
func (p *parser) emptyBrackets() bool {
	rest := p.src[p.pos:]
	trimmed := strings.TrimLeft(rest, " \t")
	if !strings.HasPrefix(trimmed, "(") {
		return false
	}
	inner := strings.TrimLeft(trimmed[1:], " \t")
	if !strings.HasPrefix(inner, ")") {
		return false
	}
	p.pos = len(p.src) - len(inner) + 1
	return true
}
