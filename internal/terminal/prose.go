package terminal

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Prose breaks text that comes in pieces into rows of a width, between words where it can, and gives its markdown a little style:
// headings and **strong** are bold, `code` and fenced blocks have a colour. No character is left out or added, so what is copied
// from the terminal is what was said; only tabs become blanks, and blanks where a row is broken go.
type Prose struct {
	Width   int // columns, at least 2
	Palette Palette

	row, word  []letter
	columns    int // of row
	line       string
	fenced     bool
	bold, code bool
	star       bool // the last letter was a star that may be half of a mark
}

// letter is one character as it is shown.
type letter struct {
	r     rune
	style Style
}

// tabStop is how far tabs go.
const tabStop = 4

// Write takes a piece of text and gives the rows that it completes.
func (p *Prose) Write(text string) (rows []string) {
	for _, r := range text {
		switch {
		case r == '\n':
			rows = append(rows, p.endLine())
			continue
		case r == '\t':
			for range tabStop - (p.columns+columns(p.word))%tabStop {
				p.blank()
			}
		case r == ' ':
			p.blank()
		default:
			rows = append(rows, p.put(letter{r, p.mark(r)})...)
		}
		p.line += string(r)
	}
	return rows
}

// Rest is the row that is not complete yet, as it would be printed now.
func (p *Prose) Rest() string { return p.render(append(p.row[:len(p.row):len(p.row)], p.word...)) }

// End completes the row that is there, if any, and forgets what it knew of the text.
func (p *Prose) End() (rows []string) {
	if p.line != "" {
		rows = append(rows, p.endLine())
	}
	*p = Prose{Width: p.Width, Palette: p.Palette}
	return rows
}

func (p *Prose) inFence() bool { return p.fenced || isFence(p.line) }

func isFence(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "```") }

func (p *Prose) style() Style {
	switch {
	case p.code || p.inFence():
		return Accent
	case p.bold || strings.HasPrefix(p.line, "#"):
		return Bold
	}
	return Plain
}

// mark follows the markdown of one character and gives its style: marks look like what they mark.
func (p *Prose) mark(r rune) Style {
	before, starred := p.style(), p.star
	p.star = r == '*'
	switch {
	case p.inFence():
	case r == '#' && p.line == "":
		return Bold
	case r == '`':
		p.code = !p.code
	case r == '*' && starred && !p.code:
		p.bold, p.star = !p.bold, false
		if n := len(p.word); n > 0 && p.bold {
			p.word[n-1].style = Bold
		}
	}
	if after := p.style(); after != Plain {
		return after
	}
	return before
}

// put adds a letter to the word. Where the row is full it is broken before the word, or in it when it fills a row by itself.
func (p *Prose) put(l letter) (rows []string) {
	if p.columns+columns(append(p.word, l)) > p.Width-1 {
		if p.columns == 0 {
			p.row, p.word = p.word, nil
		}
		rows = []string{p.render(p.row)}
		p.row, p.columns = nil, 0
	}
	p.word = append(p.word, l)
	return rows
}

// blank ends the word. One that would not fit is where the row is broken.
func (p *Prose) blank() {
	p.row = append(p.row, p.word...)
	p.columns += columns(p.word)
	p.word, p.star = nil, false
	if p.columns < p.Width-1 {
		p.row = append(p.row, letter{' ', Plain})
		p.columns++
	}
}

func (p *Prose) endLine() string {
	done := p.Rest()
	if isFence(p.line) {
		p.fenced = !p.fenced
	}
	p.row, p.word, p.columns, p.line = nil, nil, 0, ""
	p.bold, p.code, p.star = false, false, false
	return done
}

func columns(letters []letter) int {
	var b strings.Builder
	for _, l := range letters {
		b.WriteRune(l.r)
	}
	return ansi.StringWidth(b.String())
}

// render gives letters with their styles, without blanks at the end.
func (p *Prose) render(letters []letter) string {
	for len(letters) > 0 && letters[len(letters)-1].r == ' ' {
		letters = letters[:len(letters)-1]
	}
	var b strings.Builder
	for len(letters) > 0 {
		n := 1
		for n < len(letters) && letters[n].style == letters[0].style {
			n++
		}
		var run strings.Builder
		for _, l := range letters[:n] {
			run.WriteRune(l.r)
		}
		b.WriteString(p.Palette.Paint(letters[0].style, run.String()))
		letters = letters[n:]
	}
	return b.String()
}
