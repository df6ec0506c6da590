package tool

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// Bounds of a command's output. They are what a model can use; a 30 MB log helps nobody and costs a conversation its window.
const (
	DefaultOutputMax = 50_000 // bytes kept of one command
	maxLine          = 2_000  // bytes kept of one line
	maxLines         = 2_000
	headShare        = 40 // per cent of the bound that go to the beginning; errors are at the end, so the end gets more
)

// output keeps the first 40 % and the last 60 % of what is written to it, in bounded memory that grows with what comes, without
// terminal escapes and with long lines cut. It is safe for concurrent use, and never fails.
type output struct {
	mu       sync.Mutex
	headMax  int
	tailMax  int
	escape   escapes
	head     []byte
	tail     []byte // a ring once it is full
	next     int    // where the ring continues
	full     bool
	total    int // bytes after escapes and long lines were taken out
	newlines int // of total
	column   int
	cut      int // bytes cut from the current line
}

func newOutput(limit int) *output {
	if limit <= 0 {
		limit = DefaultOutputMax
	}
	head := limit * headShare / 100
	return &output{headMax: head, tailMax: limit - head}
}

// Write takes what a command printed.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range p {
		if b, ok := o.escape.next(b); ok {
			o.line(b)
		}
	}
	return len(p), nil
}

// line cuts a long line at a character's start and says how much is missing when the line ends.
func (o *output) line(b byte) {
	switch {
	case b == '\n':
		o.endLine()
		o.keep(b)
		o.column = 0
	case o.cut > 0 || (o.column >= maxLine && utf8.RuneStart(b)):
		o.cut++
	default:
		o.column++
		o.keep(b)
	}
}

func (o *output) endLine() {
	if o.cut == 0 {
		return
	}
	for _, b := range fmt.Appendf(nil, " [… %d bytes of this line left out]", o.cut) {
		o.keep(b)
	}
	o.cut = 0
}

func (o *output) keep(b byte) {
	o.total++
	if b == '\n' {
		o.newlines++
	}
	switch {
	case len(o.head) < o.headMax:
		o.head = append(o.head, b)
	case len(o.tail) < o.tailMax:
		o.tail = append(o.tail, b)
	case len(o.tail) > 0:
		o.full = true
		o.tail[o.next] = b
		o.next = (o.next + 1) % len(o.tail)
	}
}

// String gives what was kept, as valid UTF-8, with a notice where something is missing.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endLine()
	head, tail := o.parts()
	if !o.full {
		return fewerLines(valid(head + tail))
	}
	missing := o.total - len(head) - len(tail)
	return fewerLines(valid(fmt.Sprintf("%s\n[… %d of %d bytes left out here …]\n%s", head, missing, o.total, tail)))
}

// parts gives the beginning and the end; where nothing is missing between them, the second continues the first.
func (o *output) parts() (head, tail string) {
	head, tail = string(o.head), string(o.tail[o.next:])+string(o.tail[:o.next])
	if o.full {
		return trimEnd(head), trimStart(tail)
	}
	return head, tail
}

func valid(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// trimEnd takes a character that was cut in two off the end.
func trimEnd(s string) string {
	for i := 1; i <= utf8.UTFMax && i <= len(s); i++ {
		if c := s[len(s)-i]; utf8.RuneStart(c) {
			if !utf8.FullRuneInString(s[len(s)-i:]) {
				return s[:len(s)-i]
			}
			break
		}
	}
	return s
}

func trimStart(s string) string {
	for i := 0; i < utf8.UTFMax && i < len(s); i++ {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	return s
}

func fewerLines(s string) string {
	lines := strings.SplitAfter(s, "\n")
	if len(lines) <= maxLines {
		return s
	}
	head, tail := maxLines*headShare/100, maxLines*(100-headShare)/100
	return fmt.Sprintf("%s[… %d of %d lines left out here …]\n%s", strings.Join(lines[:head], ""),
		len(lines)-head-tail, len(lines), strings.Join(lines[len(lines)-tail:], ""))
}

// Clip cuts a text to about limit bytes, from the middle, and says how much is missing.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	head := trimEnd(text[:limit*headShare/100])
	tail := trimStart(text[len(text)-limit*(100-headShare)/100:])
	return fmt.Sprintf("%s\n[… %d of %d bytes left out here …]\n%s", head, len(text)-len(head)-len(tail), len(text), tail)
}
