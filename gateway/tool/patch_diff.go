package tool

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// hunk is one change of a unified diff: the lines that must be there and those that come instead.
type hunk struct {
	line     int // where the old lines begin, from 1; 0 for an empty file
	old, new []string
	last     byte // kind of the line that was read last
}

var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// parseDiff reads a unified diff of one file. Lines keep their ends. The counts of a hunk decide nothing: models get them wrong, and
// the lines say it all.
func parseDiff(diff string) ([]hunk, error) {
	var hunks []hunk
	lines := split(strings.TrimRight(diff, "\n") + "\n")
	for i := 0; i < len(lines); i++ {
		line, open := lines[i], len(hunks) > 0
		switch {
		case strings.HasPrefix(line, "--- ") && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "+++ "):
			if open {
				return nil, errors.New("the diff is of more than one file; patch one file at a time")
			}
			i++
		case strings.HasPrefix(line, "@@"):
			h, err := parseHead(line)
			if err != nil {
				return nil, fmt.Errorf("line %d of the diff: %w", i+1, err)
			}
			hunks = append(hunks, h)
		case !open || strings.HasPrefix(line, "diff ") || strings.HasPrefix(line, "index "):
			// what stands before a file's first hunk is for people
		default:
			if err := hunks[len(hunks)-1].add(line); err != nil {
				return nil, fmt.Errorf("line %d of the diff: %w", i+1, err)
			}
		}
	}
	if len(hunks) == 0 {
		return nil, errors.New("the diff has no hunks (lines that begin with @@ -1,2 +1,3 @@)")
	}
	return hunks, nil
}

func parseHead(line string) (hunk, error) {
	m := hunkHead.FindStringSubmatch(line)
	if m == nil {
		return hunk{}, errors.New("a hunk begins with @@ -LINE,COUNT +LINE,COUNT @@")
	}
	at, err := strconv.Atoi(m[1])
	return hunk{line: at}, err
}

func (h *hunk) add(line string) error {
	kind, rest := line[0], line[1:]
	if line == "\n" || line == "\r\n" { // an empty context line whose space an editor took away
		kind, rest = ' ', line
	}
	switch kind {
	case ' ':
		h.old, h.new = append(h.old, rest), append(h.new, rest)
	case '-':
		h.old = append(h.old, rest)
	case '+':
		h.new = append(h.new, rest)
	case '\\': // "\ No newline at end of file" is about the line before
		h.unend()
		return nil
	default:
		return errors.New("a line of a hunk begins with a space, - or +")
	}
	h.last = kind
	return nil
}

// unend takes the end off the line that was added last.
func (h *hunk) unend() {
	if n := len(h.old); n > 0 && h.last != '+' {
		h.old[n-1] = body(h.old[n-1])
	}
	if n := len(h.new); n > 0 && h.last != '-' {
		h.new[n-1] = body(h.new[n-1])
	}
}

// body is a line without its end.
func body(line string) string { return strings.TrimRight(line, "\r\n") }

// applyDiff applies every hunk where its old lines stand: at the line it names, or, when they are elsewhere, in the one place after
// the hunk before it where they are. Lines are compared to the letter.
func applyDiff(text, diff, path string) (patched, report string, err error) {
	hunks, err := parseDiff(diff)
	if err != nil {
		return "", "", err
	}
	lines := split(text)
	if text == "" {
		lines = nil
	}
	crlf, shift, floor, moved := wholeCRLF(text), 0, 0, 0
	for i, h := range hunks {
		h.ends(crlf)
		at, err := h.find(lines, h.line-1+shift, floor)
		if err != nil {
			return "", "", fmt.Errorf("hunk %d (line %d): %w", i+1, h.line, err)
		}
		if at != h.line-1+shift {
			moved++
		}
		lines = slices.Concat(lines[:at], h.instead(lines[at:at+len(h.old)]), lines[at+len(h.old):])
		shift += len(h.new) - len(h.old)
		floor = at + len(h.new)
	}
	report = fmt.Sprintf("[%s patched: %d hunks, %d lines now", path, len(hunks), len(lines))
	if moved > 0 {
		report += fmt.Sprintf("; %d of them in another line than the diff says, where alone their text stands", moved)
	}
	return strings.Join(lines, ""), report + "]", nil
}

// ends gives the hunk's lines the ends of the file's.
func (h *hunk) ends(crlf bool) {
	end := "\n"
	if crlf {
		end = "\r\n"
	}
	for _, lines := range [][]string{h.old, h.new} {
		for i, line := range lines {
			if body(line) != line {
				lines[i] = body(line) + end
			}
		}
	}
}

// instead gives the lines that replace these. A file whose last line has no end keeps it so where the diff does not speak of it.
func (h hunk) instead(there []string) []string {
	lines := slices.Clone(h.new)
	if n, o := len(lines), len(there); n > 0 && o > 0 && there[o-1] == body(there[o-1]) && h.old[o-1] != there[o-1] {
		lines[n-1] = body(lines[n-1])
	}
	return lines
}

// find gives the index at which the old lines stand.
func (h hunk) find(lines []string, want, floor int) (int, error) {
	if len(h.old) == 0 { // only added lines: the line after which they come is all there is
		if want++; h.line == 0 {
			want = 0
		}
		if want < floor || want > len(lines) {
			return 0, fmt.Errorf("there is no such line; the file has %d", len(lines))
		}
		return want, nil
	}
	if want >= floor && h.standsAt(lines, want) {
		return want, nil
	}
	var found []int
	for at := floor; at+len(h.old) <= len(lines); at++ {
		if h.standsAt(lines, at) {
			found = append(found, at)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return 0, errors.New("its old lines are not in the file as they are written. Read the file again")
	}
	return 0, fmt.Errorf("its old lines are in the file %d times and none of them at that line; give more context", len(found))
}

func (h hunk) standsAt(lines []string, at int) bool {
	if at < 0 || at+len(h.old) > len(lines) {
		return false
	}
	for i, line := range h.old {
		last := at+i == len(lines)-1 // only there a line may have no end
		if lines[at+i] != line && !(last && body(lines[at+i]) == body(line)) {
			return false
		}
	}
	return true
}
