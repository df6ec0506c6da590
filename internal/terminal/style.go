package terminal

import "github.com/charmbracelet/x/ansi"

// Style is how a piece of text looks, as the numbers of an SGR sequence. The zero value is plain text.
type Style string

// The styles. They are the terminal's own colours, so that they fit its background.
const (
	Plain  Style = ""
	Dim    Style = "2"
	Bold   Style = "1"
	Accent Style = "36"
	Bad    Style = "31"
	Ask    Style = "1;33"
)

// Palette paints styles, or leaves them out where a person wants no colour (NO_COLOR) or the terminal knows none.
type Palette struct{ Off bool }

// Paint gives text in a style.
func (p Palette) Paint(s Style, text string) string {
	if p.Off || s == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + ansi.ResetStyle
}
