package tool

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestOutputKeepsHeadAndTailInBoundedMemory(t *testing.T) {
	o := newOutput(1_000)
	block := strings.Repeat("a", 99) + "\n"
	_, _ = o.Write([]byte("first\n"))
	for range 30_000 {
		_, _ = o.Write([]byte(block))
	}
	_, _ = o.Write([]byte("last\n"))
	text := o.String()
	if !strings.HasPrefix(text, "first\n") || !strings.HasSuffix(text, "last\n") || !strings.Contains(text, "of 3000011 bytes left out here") {
		t.Errorf("%.80q … %.80q", text, text[len(text)-80:])
	}
	head, tail, _ := strings.Cut(text, "\n[…")
	if len(text) > 1_100 || len(head) != 400 || len(tail) < 600 {
		t.Errorf("head %d, all %d", len(head), len(text))
	}
	if kept := len(o.head) + len(o.tail); kept > 1_000 || cap(o.head)+cap(o.tail) > 2_000 {
		t.Errorf("keeps %d bytes", kept)
	}
}

func TestOutputLosesNothingThatFits(t *testing.T) {
	o := newOutput(1_000)
	want := strings.Repeat("äöü ", 120)
	for i := range len(want) {
		_, _ = o.Write([]byte{want[i]})
	}
	if got := o.String(); got != want {
		t.Errorf("%q", got)
	}
}

func TestOutputNeverCutsACharacter(t *testing.T) {
	for limit := 10; limit < 40; limit++ {
		o := newOutput(limit)
		_, _ = o.Write([]byte(strings.Repeat("€", 50)))
		if text := o.String(); strings.ContainsRune(text, '\uFFFD') || !utf8.ValidString(text) {
			t.Fatalf("limit %d: %q", limit, text)
		}
	}
}

func TestOutputTakesEscapesOutHoweverTheyAreCut(t *testing.T) {
	const in = "a\x1b[31;1mred\x1b[0m\x1b]0;title\x07b\x1b]8;;http://x\x1b\\link\x1b(B\r\nc\rd\x08\x7f\te\x1bPq#0\x1b\\f"
	for size := 1; size < len(in); size++ {
		o := newOutput(0)
		for rest := in; rest != ""; {
			n := min(size, len(rest))
			_, _ = o.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		if got := o.String(); got != "aredblink\nc\nd\tef" {
			t.Fatalf("in pieces of %d: %q", size, got)
		}
	}
}

func TestOutputCutsLongLinesAndSaysSo(t *testing.T) {
	o := newOutput(0)
	_, _ = o.Write([]byte(strings.Repeat("x", 5_000) + "\nshort\n"))
	if got := o.String(); !strings.Contains(got, "[… 3000 bytes of this line left out]\nshort\n") || len(got) > 2_100 {
		t.Errorf("%d bytes, %.40q", len(got), got[1_990:])
	}
}

func TestOutputCutsManyLines(t *testing.T) {
	o := newOutput(0)
	_, _ = o.Write([]byte(strings.Repeat("x\n", 10_000)))
	if got := o.String(); strings.Count(got, "\n") > maxLines+2 || !strings.Contains(got, "lines left out here") {
		t.Errorf("%d lines", strings.Count(got, "\n"))
	}
}

func TestClipKeepsShortTextAsItIs(t *testing.T) {
	if got := Clip("abc", 3); got != "abc" {
		t.Error(got)
	}
	if got := Clip(strings.Repeat("€", 100), 100); !utf8.ValidString(got) || len(got) > 160 {
		t.Error(got)
	}
}
