package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// readable is how many columns a row of prose has at most: longer ones are hard to read.
const readable = 120

// wrapped writes prose that comes in pieces, as it comes, and breaks its rows between words. A word that is longer than a row is left to the
// terminal. With a width of 0, where nobody looks, every byte goes on as it came.
type wrapped struct {
	out    io.Writer
	width  int
	column int // of what was written
	blanks int // after it, not written yet: a row may end here
	word   strings.Builder
}

// wrapOn is prose for a stream: of the width of its terminal, or none.
func wrapOn(out io.Writer) *wrapped {
	w := &wrapped{out: out}
	if f, ok := terminalOf(out); ok && isTerminal(out) {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			w.width = min(width, readable)
		}
	}
	return w
}

// Text writes a piece of the prose.
func (w *wrapped) Text(piece string) {
	if w.width == 0 {
		fmt.Fprint(w.out, piece)
		return
	}
	for _, r := range piece {
		switch r {
		case '\n':
			w.Flush()
			w.blanks, w.column = 0, 0
			fmt.Fprintln(w.out)
		case ' ':
			w.Flush()
			w.blanks++
		default:
			w.word.WriteRune(r)
		}
	}
}

// Flush writes the word that may not be whole yet: something else comes between, or nothing more.
func (w *wrapped) Flush() {
	word := w.word.String()
	if word == "" {
		return
	}
	w.word.Reset()
	wide := ansi.StringWidth(word)
	if w.column > 0 && w.column+w.blanks+wide > w.width {
		fmt.Fprintln(w.out)
		w.column, w.blanks = 0, 0
	}
	fmt.Fprint(w.out, strings.Repeat(" ", w.blanks), word)
	if w.column, w.blanks = w.column+w.blanks+wide, 0; w.column > w.width { // a long word: the terminal has broken it
		w.column = (w.column-1)%w.width + 1
	}
}

// Row begins a new row, unless one has just begun.
func (w *wrapped) Row() {
	w.Flush()
	if w.column > 0 {
		fmt.Fprintln(w.out)
	}
	w.column, w.blanks = 0, 0
}
