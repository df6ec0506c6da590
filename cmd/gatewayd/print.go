package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"
)

// emit prints v as JSON when --json was given, else as text.
func (c *cli) emit(v any, text func(w io.Writer)) error {
	if !c.json {
		text(c.std.out)
		return nil
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := c.std.out.Write(safeJSON(out.Bytes()))
	return err
}

// jsonLine prints v as JSON on one line.
func jsonLine(w io.Writer, v any) error {
	raw, err := json.Marshal(v)
	if err == nil {
		_, err = w.Write(append(safeJSON(raw), '\n'))
	}
	return err
}

// safeJSON escapes what a terminal would act upon. JSON lets control characters through from DEL on; escaped they are the
// same text to every reader.
func safeJSON(raw []byte) []byte {
	if !bytes.ContainsFunc(raw, escaped) {
		return raw
	}
	var out []byte
	for _, r := range string(raw) {
		switch {
		case !escaped(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

func escaped(r rune) bool { return r >= 0x7f && visible(r) != r && r != unicode.ReplacementChar }

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
	f, ok := terminalOf(stream)
	return ok && term.IsTerminal(int(f.Fd()))
}

// when prints a moment in local time, to the second: most of what happens to a card happens within a minute.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// many is a number of things: "1 card", "2 cards".
func many[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// numberOr is a number, or a word where it is 0.
func numberOr(n int, zero string) string {
	if n == 0 {
		return zero
	}
	return strconv.Itoa(n)
}

// short is line for a list: whoever wants all of a long text asks for the thing itself.
func short(s string) string {
	const most = 200 // about two lines of a wide terminal
	if runes := []rune(line(s)); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return line(s)
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
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r): // C1 and changes of direction
		return unicode.ReplacementChar
	case r == '\u2028', r == '\u2029', r == '\ufeff', 0xe0000 <= r && r <= 0xe007f: // other ends of a line, and text that cannot be seen
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

// safeOnTerminal is onTerminal for what comes in pieces: a character may be cut in two.
func safeOnTerminal(out io.Writer) io.Writer {
	if !isTerminal(out) {
		return out
	}
	return &safeWriter{out: out}
}

type safeWriter struct {
	out  io.Writer
	rest []byte // the beginning of a character
}

func (w *safeWriter) Write(p []byte) (int, error) {
	whole := append(w.rest, p...)
	keep := len(whole)
	for back := 1; back < utf8.UTFMax && back <= len(whole); back++ {
		if c := whole[len(whole)-back]; utf8.RuneStart(c) {
			if !utf8.FullRune(whole[len(whole)-back:]) {
				keep = len(whole) - back
			}
			break
		}
	}
	if _, err := io.WriteString(w.out, text(string(whole[:keep]))); err != nil {
		return 0, err
	}
	w.rest = append([]byte{}, whole[keep:]...)
	return len(p), nil
}

// none says on the side that a list is empty, so that a person is not left with silence and a program with words.
func (c *cli) none(n int, format string, args ...any) {
	if n == 0 && !c.json {
		fmt.Fprintln(c.std.err, line(fmt.Sprintf(format, args...)))
	}
}
