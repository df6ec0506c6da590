package compact

import (
	"fmt"
	"strings"

	"gatewayd/sessiondb"
)

const (
	argsMost    = 500  // characters of a call's arguments that a summariser is shown
	newestMost  = 2000 // of a result among the last ones
	newestCount = 6    // results that are shown at this length; older ones are stubs
	textMost    = 8000 // of any other text
)

// render writes rows as a record that a summariser reads: who said what, without what no summary can use.
func render(rows []sessiondb.Message) string {
	var b strings.Builder
	again, old := repeated(rows), oldResults(rows)
	for i, m := range rows {
		switch {
		case isFolded(m):
		case m.Role == "tool":
			text := stub(m, again[i])
			if !old[i] && !again[i] {
				text = shorten(plain(Sent(m)), newestMost)
			}
			fmt.Fprintf(&b, "RESULT of %s: %s\n", m.ToolName, text)
		case m.Role == "assistant":
			if text := Sent(m); text != "" {
				fmt.Fprintf(&b, "ASSISTANT: %s\n", shorten(plain(text), textMost))
			}
			for _, c := range callsOf(m) {
				fmt.Fprintf(&b, "CALL of %s: %s\n", c.Function.Name, shorten(plain(c.Function.Arguments), argsMost))
			}
		case m.Role == "user":
			fmt.Fprintf(&b, "USER: %s\n", shorten(plain(Sent(m)), textMost))
		}
	}
	return b.String()
}

// oldResults gives the places of all results but the newest.
func oldResults(rows []sessiondb.Message) map[int]bool {
	old, n := map[int]bool{}, 0
	for i := len(rows) - 1; i >= 0; i-- {
		if rows[i].Role == "tool" {
			n++
			old[i] = n > newestCount
		}
	}
	return old
}

// shorten leaves out the middle of a long text.
func shorten(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	head := most * 2 / 5
	return string(runes[:head]) + fmt.Sprintf(" […%d characters…] ", len(runes)-most) + string(runes[len(runes)-(most-head):])
}
