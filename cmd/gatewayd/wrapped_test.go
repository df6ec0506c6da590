package main

import (
	"strings"
	"testing"
)

func TestProseIsWrappedBetweenWordsHoweverItComes(t *testing.T) {
	text := "The quick brown fox jumps over the lazy dog, and a_word_that_is_longer_than_a_row_is_left_whole.\n\n    indented code stays\n* ünïcödé 漢字 漢字 漢字 end"
	want := "The quick brown fox\njumps over the lazy\ndog, and\na_word_that_is_longer_than_a_row_is_left_whole.\n\n    indented code\nstays\n* ünïcödé 漢字 漢字\n漢字 end\n"
	for _, size := range []int{1, 3, 1000} {
		var out strings.Builder
		w := &wrapped{out: &out, width: 20}
		for runes := []rune(text); len(runes) > 0; {
			n := min(size, len(runes))
			w.Text(string(runes[:n]))
			runes = runes[n:]
		}
		w.Row()
		w.Row()
		if out.String() != want {
			t.Errorf("in pieces of %d:\n%q\nwant\n%q", size, out.String(), want)
		}
	}
	var full strings.Builder
	w := &wrapped{out: &full, width: 10}
	w.Text("ten stands and more")
	w.Row()
	if full.String() != "ten stands\nand more\n" {
		t.Errorf("after a row that is full: %q", full.String())
	}
	var out strings.Builder
	piped := wrapOn(&out)
	piped.Text(text)
	piped.Flush()
	if out.String() != text {
		t.Errorf("what nobody looks at is changed: %q", out.String())
	}
}
