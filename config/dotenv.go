package config

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// envLine is one variable of a .env file. Line counts from 1.
type envLine struct {
	name, value string
	line        int
}

// envMistake says what is wrong in which line of a .env file. It never quotes a value, which may be a secret.
type envMistake struct {
	line         int
	what, remedy string
}

// parseEnv reads the text of a .env file: NAME=value, one to a line, as a shell would read it, but nothing in it is expanded: a
// `$` in a password stays one. Blank lines and lines that begin with # are passed over, `export ` before a name too.
//
//   - 'single quotes' hold everything up to the next one, line ends too.
//   - "double quotes" do the same and know \n, \r, \t, \", \\ and \$; before anything else a backslash is one.
//   - Without quotes a value ends with its line, or at a blank and #.
//
// All mistakes are given, each with its line, beside what could be read.
func parseEnv(text []byte) (lines []envLine, mistakes []envMistake) {
	clean, bad := plainText(text)
	if bad != "" {
		return nil, []envMistake{{lineOf(text), bad, "save it as UTF-8 text"}}
	}
	p := envParser{rest: string(clean), line: 1, first: map[string]int{}}
	for p.rest != "" {
		p.statement()
	}
	return p.lines, p.mistakes
}

// lineOf is the line of the first byte that is no text.
func lineOf(text []byte) int {
	line := 1
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == 0 || r == utf8.RuneError && n == 1 {
			break
		}
		if r == '\n' {
			line++
		}
		text = text[n:]
	}
	return line
}

type envParser struct {
	rest     string
	line     int // of what rest begins with
	first    map[string]int
	lines    []envLine
	mistakes []envMistake
}

func (p *envParser) refuse(line int, remedy, format string, args ...any) {
	p.mistakes = append(p.mistakes, envMistake{line, fmt.Sprintf(format, args...), remedy})
}

// statement reads one variable, a comment or a blank line, and the line's end.
func (p *envParser) statement() {
	at := p.line
	head := strings.TrimLeft(p.upTo("=\n"), " \t")
	if head == "" && !p.next("=") || strings.HasPrefix(head, "#") {
		p.skipLine()
		return
	}
	name := strings.TrimRight(head, " \t")
	if rest, exported := strings.CutPrefix(name, "export "); exported {
		name = strings.TrimLeft(rest, " \t")
	}
	switch {
	case !p.next("="):
		p.refuse(at, "write NAME=value; a comment begins with #", "is no variable: there is no =")
		p.skipLine()
		return
	case !envName.MatchString(name):
		p.refuse(at, "names are letters, digits and _, as OPENAI_API_KEY", "does not begin with the name of a variable")
		p.take(1)
		p.skipLine()
		return
	}
	p.take(1)
	if value, ok := p.value(at, name); ok {
		p.add(envLine{name, value, at})
	}
}

// add keeps a variable. One that is given twice is a mistake as in the configuration: which of the two counts nobody could tell.
func (p *envParser) add(l envLine) {
	if before, twice := p.first[l.name]; twice {
		p.refuse(l.line, "keep one of the two", "gives %s again, first in line %d", l.name, before)
		return
	}
	p.first[l.name] = l.line
	p.lines = append(p.lines, l)
}

func (p *envParser) value(at int, name string) (value string, ok bool) {
	p.blanks()
	switch {
	case p.next("'"):
		p.take(1)
		value = p.upTo("'")
	case p.next(`"`):
		p.take(1)
		value = p.escaped()
	default:
		return bare(p.skipLine()), true
	}
	if p.rest == "" {
		p.refuse(at, "close it", "opens a quote for %s that is never closed", name)
		return "", false
	}
	p.take(1) // the closing quote
	if after := strings.TrimLeft(p.skipLine(), " \t"); after != "" && !strings.HasPrefix(after, "#") {
		p.refuse(at, "put the whole value into one pair of quotes", "has text behind the closing quote of %s", name)
		return "", false
	}
	return value, true
}

// bare is a value without quotes: it ends at a comment, which begins behind a blank.
func bare(line string) string {
	for i := range line {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			line = line[:i]
			break
		}
	}
	return strings.TrimSpace(line)
}

var envEscapes = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', '"': '"', '\\': '\\', '$': '$'}

// escaped reads up to the closing double quote, which it leaves.
func (p *envParser) escaped() string {
	var out strings.Builder
	for p.rest != "" && !p.next(`"`) {
		c := p.take(1)
		if meant, known := envEscapes[p.peek()]; c == `\` && known {
			p.take(1)
			c = string(meant)
		}
		out.WriteString(c)
	}
	return out.String()
}

func (p *envParser) peek() byte {
	if p.rest == "" {
		return 0
	}
	return p.rest[0]
}

func (p *envParser) next(prefix string) bool { return strings.HasPrefix(p.rest, prefix) }

// take gives the next n bytes and counts the lines in them.
func (p *envParser) take(n int) string {
	taken := p.rest[:n]
	p.rest = p.rest[n:]
	p.line += strings.Count(taken, "\n")
	return taken
}

// upTo gives what stands before any of the characters, or all that is left.
func (p *envParser) upTo(chars string) string {
	if i := strings.IndexAny(p.rest, chars); i >= 0 {
		return p.take(i)
	}
	return p.take(len(p.rest))
}

func (p *envParser) blanks() {
	p.take(len(p.rest) - len(strings.TrimLeft(p.rest, " \t")))
}

// skipLine gives the rest of the line and takes its end, too.
func (p *envParser) skipLine() string {
	text := p.upTo("\n")
	if p.rest != "" {
		p.take(1)
	}
	return text
}
