package web

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"gatewayd/kanban"
)

// logView is the end of what a card's workers said.
type logView struct {
	Exists bool
	Text   string
	Size   int64
	Cut    bool // there is more before it
	Live   bool // somebody writes it
}

// log reads the end of a card's log.
func (s *site) log(slug kanban.Slug, d kanban.Detail) (logView, error) {
	raw, err := s.Boards.ReadLog(slug, d.Task.ID, logTail)
	if err != nil {
		return logView{}, err
	}
	return logView{
		Exists: raw.Exists, Text: readable(raw.Content, raw.Truncated), Size: raw.Size, Cut: raw.Truncated, Live: d.Task.Status == kanban.StatusRunning,
	}, nil
}

// readable is what a terminal would have left of a program's output: no colours, and of a line that was written over its last version.
func readable(raw string, cut bool) string {
	text := ansi.Strip(strings.ToValidUTF8(raw, "\ufffd"))
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	if cut && len(lines) > 1 {
		lines = lines[1:] // it begins somewhere inside
	}
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		if at := strings.LastIndexByte(line, '\r'); at >= 0 {
			line = line[at+1:]
		}
		lines[i] = strings.Map(visible, line)
	}
	return strings.Join(lines, "\n")
}

func visible(r rune) rune {
	if r != '\t' && r < ' ' || r == 0x7f {
		return -1
	}
	return r
}
