package terminal

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// search looks backwards through the history for what is typed.
type search struct {
	text   string
	at     int    // where the last match is
	failed bool   // there is none
	before string // the line that was edited
}

func (s *search) prompt() string {
	if s.failed {
		return fmt.Sprintf("(no earlier line has %q) ", s.text)
	}
	return fmt.Sprintf("(earlier line with %q) ", s.text)
}

// searching takes a key while the history is looked through. It reports false for one that ends the search and acts on the line.
func (e *editor) searching(k tea.KeyPressMsg) bool {
	s := e.search
	switch name := k.String(); {
	case name == "ctrl+r":
		e.find(s.at)
	case name == "esc" || name == "ctrl+g":
		e.search = nil
		e.set(s.before)
	case name == "backspace":
		if runes := []rune(s.text); len(runes) > 0 {
			s.text = string(runes[:len(runes)-1])
		}
		e.find(len(e.history.lines))
	case k.Text != "":
		s.text += k.Text
		e.find(min(s.at+1, len(e.history.lines)))
	default:
		e.search = nil
		return false
	}
	return true
}

// find shows the newest line before a place that has the text.
func (e *editor) find(before int) {
	s := e.search
	for i := before - 1; i >= 0; i-- {
		if s.text != "" && strings.Contains(e.history.lines[i], s.text) {
			s.at, s.failed = i, false
			e.at = i
			e.set(e.history.lines[i])
			return
		}
	}
	s.failed = s.text != ""
}
