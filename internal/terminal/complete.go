package terminal

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Choice is one way to go on with a line.
type Choice struct {
	Line  string // the whole line as it would be
	Label string // how it is listed
	About string // a few words beside it
}

// menuRows is how many choices are listed at once.
const menuRows = 8

// menu is a list of choices under the line.
type menu struct {
	choices []Choice
	at      int // the one that the line shows; -1: none yet
}

func (m menu) shown() bool { return len(m.choices) > 0 }

// offer takes the choices for a line: the only one is taken, of several what they share is, and they are listed.
func (e *editor) offer(choices []Choice) {
	switch shared := sharedStart(choices); {
	case len(choices) == 0:
	case len(choices) == 1:
		e.set(choices[0].Line)
	default:
		if len(shared) > len(e.area.Value()) {
			e.set(shared)
		}
		e.menu = menu{choices: choices, at: -1}
	}
}

func sharedStart(choices []Choice) string {
	if len(choices) == 0 {
		return ""
	}
	shared := choices[0].Line
	for _, c := range choices[1:] {
		for !strings.HasPrefix(c.Line, shared) {
			runes := []rune(shared)
			shared = string(runes[:len(runes)-1])
		}
	}
	return shared
}

// choose takes a key while choices are listed; it reports false for one that has nothing to do with them.
func (e *editor) choose(name string) bool {
	m := &e.menu
	switch name {
	case "tab", "down", "ctrl+n":
		m.at = (m.at + 1) % len(m.choices)
	case "shift+tab", "up", "ctrl+p":
		m.at = (max(m.at, 0) + len(m.choices) - 1) % len(m.choices)
	case "esc":
		e.menu = menu{}
		return true
	default:
		return false
	}
	e.set(m.choices[m.at].Line)
	return true
}

func (m menu) rows(p Palette, width int) (rows []string) {
	first := max(0, min(m.at-menuRows/2, len(m.choices)-menuRows))
	widest := 0
	for _, c := range m.choices {
		widest = max(widest, ansi.StringWidth(c.Label))
	}
	widest = min(widest, width/2)
	for i := first; i < min(first+menuRows, len(m.choices)); i++ {
		c, mark, style := m.choices[i], "  ", Plain
		if i == m.at {
			mark, style = "> ", Bold
		}
		label := ansi.Truncate(c.Label, widest, "…")
		label += strings.Repeat(" ", widest-ansi.StringWidth(label))
		rows = append(rows, mark+p.Paint(style, label)+"  "+p.Paint(Dim, c.About))
	}
	if more := len(m.choices) - menuRows; more > 0 {
		rows = append(rows, p.Paint(Dim, fmt.Sprintf("  %d in all; Tab goes through them", len(m.choices))))
	}
	return rows
}
