package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"golang.org/x/term"
)

// emit prints v as JSON when --json was given, else as text.
func (c *cli) emit(v any, text func(w io.Writer)) error {
	if !c.json {
		text(c.std.out)
		return nil
	}
	enc := json.NewEncoder(c.std.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table prints aligned columns.
func table(w io.Writer, rows func(row func(cells ...any))) {
	var buffer strings.Builder
	tw := tabwriter.NewWriter(&buffer, 0, 0, 2, ' ', 0)
	rows(func(cells ...any) {
		for i, cell := range cells {
			if i > 0 {
				fmt.Fprint(tw, "\t")
			}
			fmt.Fprint(tw, line(fmt.Sprint(cell)))
		}
		fmt.Fprintln(tw)
	})
	tw.Flush()
	for row := range strings.Lines(buffer.String()) { // no blanks after an empty last cell
		fmt.Fprintln(w, strings.TrimRight(row, " \n"))
	}
}

// isTerminal reports whether a stream is a terminal, so that a pipe gets plain lines.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// when prints a moment in local time, to the second: most of what happens to a card happens within a minute.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// line shows foreign text on one line. Cards, models and workers write what they like; a control character of theirs
// must not move the cursor, fake a second line or turn the terminal into something else, so it becomes visible.
func line(s string) string { return strings.Map(visible, strings.TrimRight(s, "\r\n")) }

// text is line for what may have several lines.
func text(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return visible(r)
	}, strings.ReplaceAll(s, "\r\n", "\n"))
}

func visible(r rune) rune {
	switch {
	case r < 0x20:
		return r + 0x2400 // the sign of this control character: ␛ for ESC
	case r == 0x7f:
		return '␡'
	case unicode.IsControl(r), '\u202a' <= r && r <= '\u202e', '\u2066' <= r && r <= '\u2069': // C1 and changes of direction
		return unicode.ReplacementChar
	}
	return r
}

// indented is text below a heading.
func indented(s, by string) string {
	return by + strings.ReplaceAll(text(strings.TrimSpace(s)), "\n", "\n"+by)
}

// onTerminal makes text safe where a person reads it and leaves it alone where a program does.
func onTerminal(out io.Writer, s string) string {
	if isTerminal(out) {
		return text(s)
	}
	return s
}

// none says on the side that a list is empty, so that a person is not left with silence and a program with words.
func (c *cli) none(n int, format string, args ...any) {
	if n == 0 && !c.json {
		fmt.Fprintf(c.std.err, format+"\n", args...)
	}
}
