package terminal

import (
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Modes that are switched while rows are painted. A terminal that does not know a mode passes over it.
const (
	beginPaint = "\x1b[?2026h\x1b[?25l" // hold the picture, hide the cursor
	endPaint   = "\x1b[?25h\x1b[?2026l"
)

// screen paints rows at the end of a terminal's text. It is used by one goroutine.
type screen struct {
	out           io.Writer
	width, height int
	painted       []int // columns of each painted row, from the top
	cursor        int   // the painted row in which the cursor stands
}

// paint prints lines for good and paints rows below them, in place of those that were painted; the cursor ends in column x of row y.
func (s *screen) paint(above, rows []string, x, y int) error {
	rows, y = s.fit(rows, y)
	var b strings.Builder
	b.WriteString(beginPaint)
	s.home(&b)
	for _, line := range above {
		b.WriteString(line)
		b.WriteString(ansi.ResetStyle + "\r\n")
	}
	s.painted = s.painted[:0]
	for i, row := range rows {
		row = ansi.Truncate(row, s.width-1, "…") // a full row would leave the cursor in doubt
		s.painted = append(s.painted, ansi.StringWidth(row))
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(row)
	}
	if up := len(rows) - 1 - y; up > 0 {
		b.WriteString(ansi.CursorUp(up))
	}
	b.WriteString("\r")
	if x = min(x, s.width-1); x > 0 {
		b.WriteString(ansi.CursorForward(x))
	}
	s.cursor = y
	b.WriteString(endPaint)
	_, err := io.WriteString(s.out, b.String())
	return err
}

// home goes to where the painted rows begin and erases them. A terminal that was made narrower has broken the rows that no longer
// fitted, so they are counted as it shows them now.
func (s *screen) home(b *strings.Builder) {
	up := 0
	for _, columns := range s.painted[:min(s.cursor, len(s.painted))] {
		up += max(1, (columns+s.width-1)/s.width)
	}
	b.WriteString("\r")
	if up > 0 {
		b.WriteString(ansi.CursorUp(min(up, s.height-1)))
	}
	b.WriteString(ansi.EraseScreenBelow)
}

// fit leaves out rows from the top where there are more than the terminal has.
func (s *screen) fit(rows []string, y int) ([]string, int) {
	if len(rows) == 0 {
		return []string{""}, 0
	}
	if over := len(rows) - s.height; over > 0 {
		over = min(over, y)
		rows, y = rows[over:], y-over
		rows = rows[:min(len(rows), s.height)]
	}
	return rows, y
}

// forget is for rows that are no longer where they were painted: others have written since.
func (s *screen) forget() { s.painted, s.cursor = nil, 0 }
