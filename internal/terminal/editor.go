package terminal

import (
	"fmt"
	"strings"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// Bounds of the line that is edited.
const (
	editorRows  = 10       // that are shown of a text of several lines
	editorMost  = 100_000  // rows of a text at most
	pasteInline = 400      // bytes of a paste that is put into the line as it is; a larger one, or one with tabs, becomes a mark
	pasteLines  = 4        // and lines
	pasteMost   = 32 << 20 // bytes that are kept of one paste
)

// editor is the line that is edited, with what was typed before it and what completes it.
type editor struct {
	area    textarea.Model
	palette Palette
	history *History

	at    int    // place in the history; its length is the new line
	draft string // the new line while an older one is shown

	pastes []paste

	menu   menu
	search *search
}

// paste is a text that stands in the line as a mark, so that a long one does not fill the screen and comes out as it went in.
type paste struct{ mark, text string }

func newEditor(history *History, palette Palette) *editor {
	a := textarea.New()
	a.ShowLineNumbers, a.DynamicHeight, a.MinHeight, a.MaxHeight, a.MaxContentHeight = false, true, 1, editorRows, editorMost
	a.Prompt = ""
	a.SetStyles(textarea.Styles{})
	a.SetVirtualCursor(false)
	a.KeyMap.InsertNewline = key.NewBinding(key.WithKeys("alt+enter", "shift+enter"))
	a.KeyMap.Paste = key.NewBinding(key.WithDisabled()) // it would start a program; terminals paste by themselves
	a.KeyMap.CopySelection = key.NewBinding(key.WithDisabled())
	a.KeyMap.SelectAll = key.NewBinding(key.WithDisabled())
	a.Focus()
	return &editor{area: a, palette: palette, history: history, at: len(history.lines)}
}

// size says how many columns the line may take.
func (e *editor) size(columns int) { e.area.SetWidth(max(4, columns)) }

func (e *editor) empty() bool { return e.area.Value() == "" }

func (e *editor) clear() {
	e.area.Reset()
	e.pastes, e.draft, e.at = nil, "", len(e.history.lines)
	e.menu = menu{}
}

// set replaces the line; the cursor goes to its end.
func (e *editor) set(text string) { e.area.SetValue(text) }

// take gives what was typed, with the pastes in place of their marks, and begins anew. The error is about keeping it.
func (e *editor) take() (text string, err error) {
	text = e.area.Value()
	for _, p := range e.pastes {
		text = strings.Replace(text, p.mark, p.text, 1)
	}
	err = e.history.Add(text)
	e.clear()
	return text, err
}

// insert puts a paste into the line.
func (e *editor) insert(text string) {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	if len(text) > pasteMost {
		text = text[:pasteMost]
	}
	lines := strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1
	if len(text) <= pasteInline && lines <= pasteLines && !strings.ContainsFunc(text, unprintable) {
		e.area.InsertString(text)
		return
	}
	mark := fmt.Sprintf("[pasted %d: %s]", len(e.pastes)+1, amount(text, lines))
	e.pastes = append(e.pastes, paste{mark, text})
	e.area.InsertString(mark)
}

func amount(text string, lines int) string {
	if lines == 1 {
		return fmt.Sprintf("%d characters", len([]rune(text)))
	}
	return fmt.Sprintf("%d lines", lines)
}

func unprintable(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }

// takesText reports that a key would only put its text into the line.
func (e *editor) takesText(k tea.KeyPressMsg) bool {
	return k.Text != "" && k.Mod&^tea.ModShift == 0 && e.search == nil && !e.menu.shown()
}

// press takes a key that edits. It reports whether the key asked for completions.
func (e *editor) press(k tea.KeyPressMsg) (complete bool) {
	if e.search != nil && e.searching(k) {
		return false
	}
	name := k.String()
	if e.menu.shown() && e.choose(name) {
		return false
	}
	e.menu = menu{}
	switch name {
	case "tab":
		return true
	case "up", "ctrl+p":
		if e.area.Line() == 0 && e.area.LineInfo().RowOffset == 0 {
			e.walk(-1)
			return false
		}
	case "down", "ctrl+n":
		if info := e.area.LineInfo(); e.area.Line() == e.area.LineCount()-1 && info.RowOffset >= info.Height-1 {
			e.walk(+1)
			return false
		}
	case "ctrl+r":
		e.search = &search{at: len(e.history.lines), before: e.area.Value()}
		return false
	}
	e.area, _ = e.area.Update(k)
	return false
}

// walk shows an older or a newer line of the history.
func (e *editor) walk(by int) {
	lines := e.history.lines
	to := min(max(0, e.at+by), len(lines))
	if to == e.at {
		return
	}
	if e.at == len(lines) {
		e.draft = e.area.Value()
	}
	e.at = to
	if to == len(lines) {
		e.set(e.draft)
		return
	}
	e.set(lines[to])
}

// rows gives what is painted of the line, and where the cursor stands in it.
func (e *editor) rows(prompt string, width int) (rows []string, x, y int) {
	if e.search != nil {
		prompt = e.search.prompt()
	}
	indent := ansi.StringWidth(prompt)
	e.size(width - indent - 1)
	view := e.area.View()
	cursor := e.area.Cursor()
	for i, row := range strings.Split(view, "\n") {
		before := strings.Repeat(" ", indent)
		if i == 0 {
			before = prompt
		}
		rows = append(rows, before+strings.TrimRight(ansi.Strip(row), " "))
	}
	x, y = indent, 0
	if cursor != nil {
		x, y = indent+cursor.X, cursor.Y
	}
	return append(rows, e.menu.rows(e.palette, width)...), x, y
}
