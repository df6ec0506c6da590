package terminal

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"gatewayd/internal/mutation"
)

// model is what is shown, and what keys do to it. Its methods are called by the program's one goroutine.
type model struct {
	*Terminal
	screen screen
	editor *editor
	rows   []string
	prompt string
	busy   bool
	ended  bool

	paintedAt time.Time // when a key's paint ended
	due       bool      // a paint is on its way
	ahead     string    // typed since, and not in the line yet

	completing bool
	held       []tea.Msg // keys that were pressed while completions are looked up
}

// paintRest is the least time between two paints for keys. A paint, and a change of the line, cost as much as the line is long, so keys that
// come quicker, from a program that types or a paste without marks, share both.
const paintRest = 10 * time.Millisecond

// rested says that paintRest is over.
type rested struct{}

// completed are the choices for a line.
type completed struct {
	line    string
	choices []Choice
}

func (m *model) Init() tea.Cmd { return nil }

// View is asked for and not used: the screen is painted by what changes it.
func (m *model) View() tea.View { return tea.NewView("") }

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var above []string
	var then tea.Cmd
	switch msg := msg.(type) {
	case Frame:
		above, m.rows, m.prompt, m.busy = msg.Above, msg.Rows, msg.Prompt, msg.Busy
	case tea.KeyPressMsg, tea.PasteMsg:
		if then = m.typed(msg); !m.rests() {
			break
		}
		if !m.due {
			m.due, then = true, tea.Batch(then, tea.Tick(paintRest, func(time.Time) tea.Msg { return rested{} }))
		}
		return m, then
	case rested:
	case completed:
		then = m.offered(msg)
	case resized:
		m.screen.width, m.screen.height = msg.width, msg.height
		m.inputs.put(Input{Kind: Resized, Width: msg.width})
	case continued:
		m.screen.forget()
		_, _ = m.screen.out.Write([]byte(pasteOn))
	default:
		return m, nil
	}
	m.paint(above)
	m.paintedAt, m.due = time.Now(), false
	return m, then
}

// rests reports that it was painted a moment ago.
func (m *model) rests() bool {
	return time.Since(m.paintedAt) < paintRest && !mutation.On("each-key-is-painted")
}

// paint shows everything as it is now. A terminal that takes nothing is gone.
func (m *model) paint(above []string) {
	if m.ended {
		return
	}
	m.settle()
	line, x, y := m.editor.rows(m.prompt, m.screen.width)
	rows := append(m.rows[:len(m.rows):len(m.rows)], line...)
	if err := m.screen.paint(above, rows, x, y+len(m.rows)); err != nil {
		m.ended = true
		m.inputs.put(Input{Kind: Leave})
	}
}

// typed takes a key or a paste. While completions are looked up it waits, so that keys do what they would have done a moment later;
// but for Ctrl-C.
func (m *model) typed(msg tea.Msg) tea.Cmd {
	k, isKey := msg.(tea.KeyPressMsg)
	switch {
	case m.completing && (!isKey || k.String() != "ctrl+c"):
		m.held = append(m.held, msg)
		return nil
	case isKey && m.rests() && m.editor.takesText(k):
		m.ahead += k.Text
		return nil
	}
	m.settle()
	if isKey {
		m.completing, m.held = false, nil
		return m.press(k)
	}
	m.editor.insert(msg.(tea.PasteMsg).Content) //nolint:forcetypeassert // it is one of two
	return nil
}

// settle puts what was typed into the line.
func (m *model) settle() {
	if m.ahead != "" {
		m.editor.area.InsertString(m.ahead)
		m.ahead = ""
	}
}

// offered takes completions, and the keys that waited for them.
func (m *model) offered(c completed) tea.Cmd {
	if !m.completing || m.editor.area.Value() != c.line {
		return nil // given up
	}
	m.completing = false
	m.editor.offer(c.choices)
	for len(m.held) > 0 {
		msg := m.held[0]
		rest := m.held[1:]
		m.held = nil
		then := m.typed(msg)
		m.held = append(m.held, rest...)
		if then != nil {
			return then
		}
	}
	return nil
}

// press does what a key means.
func (m *model) press(k tea.KeyPressMsg) tea.Cmd {
	switch name := k.String(); {
	case name == "ctrl+c":
		m.interrupt()
	case name == "ctrl+d" && m.editor.empty():
		m.inputs.put(Input{Kind: Leave})
	case name == "ctrl+l":
		_, _ = m.screen.out.Write([]byte("\x1b[2J\x1b[H"))
		m.screen.forget()
	case name == "enter" || name == "ctrl+j": // what was typed before keys were read one by one ends with a newline
		m.editor.search = nil
		text, err := m.editor.take()
		m.inputs.put(Input{Kind: Line, Text: text, Err: err})
	default:
		if m.editor.press(k) && m.options.Complete != nil {
			m.completing = true
			return m.complete(m.editor.area.Value())
		}
	}
	return nil
}

// end takes the painted rows away and gives the terminal back.
func (m *model) end() {
	if !m.ended {
		_ = m.screen.paint(nil, nil, 0, 0)
		_, _ = m.screen.out.Write([]byte(pasteOff))
	}
}

// interrupt empties the line; where it is empty, or something runs, it is the person's word to stop.
func (m *model) interrupt() {
	if !m.busy && (m.editor.search != nil || !m.editor.empty()) {
		m.editor.search = nil
		m.editor.clear()
		return
	}
	m.inputs.put(Input{Kind: Interrupt})
}

// complete asks for choices beside, so that typing goes on.
func (m *model) complete(line string) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), completeBound)
		defer cancel()
		return completed{line, m.options.Complete(ctx, line)}
	}
}
