package tool

import (
	"fmt"
	"strings"
)

// page gives up to limit lines from the given one (from 1), and where to go on. Without an offset it gives the last lines. Lines
// that are not kept any more are named, never passed over in silence; clean takes secrets out of the whole before it is cut.
func (o *output) page(offset, limit int, clean func(string) string) (text string, next int) {
	lines, first, second := o.lines(clean)
	last := second + len(lines[1]) - 1
	if offset <= 0 {
		offset = max(last-limit+1, 1)
	}
	var b strings.Builder
	if gone := first + len(lines[0]); offset >= gone && offset < second {
		fmt.Fprintf(&b, "[lines %d to %d are not kept any more]\n", offset, second-1)
		offset = second
	}
	part := lines[0]
	if offset >= second {
		part, first = lines[1], second
	}
	from := min(max(offset-first, 0), len(part))
	to := min(from+limit, len(part))
	for _, line := range part[from:to] {
		b.WriteString(line)
	}
	return b.String(), first + to
}

// lines gives what is kept in whole lines: the beginning, whose first line is 1, and the end with the number of its first line.
// The very last line may be unfinished.
func (o *output) lines(clean func(string) string) (parts [2][]string, first, second int) {
	o.mu.Lock()
	head, tail := o.parts()
	full, newlines := o.full, o.newlines
	o.mu.Unlock()
	if !full {
		parts[1] = split(clean(valid(head + tail)))
		return parts, 1, 1
	}
	_, tail, _ = strings.Cut(tail, "\n") // its first line has lost its beginning
	head = head[:strings.LastIndexByte(head, '\n')+1]
	lost := strings.Count(tail, "\n")
	parts[0], parts[1] = split(clean(valid(head))), split(clean(valid(tail)))
	return parts, 1, newlines - lost + 1
}

// split cuts a text into its lines, each with its end.
func split(text string) []string {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}
