package terminal

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/charmbracelet/x/ansi"
)

func rowsOf(width int, pieces ...string) []string {
	p := Prose{Width: width, Palette: Palette{Off: true}}
	var rows []string
	for _, piece := range pieces {
		rows = append(rows, p.Write(piece)...)
	}
	return append(rows, p.End()...)
}

func TestProseIsBrokenBetweenWords(t *testing.T) {
	for text, want := range map[string][]string{
		"one two three":            {"one two", "three"},
		"a longwordthatfillsarow":  {"a", "longwordt", "hatfillsa", "row"},
		"漢字かなx y":                  {"漢字かなx", "y"},
		"one\n\ntwo\n":             {"one", "", "two"},
		"\tx":                      {"    x"},
		"```\na  b\n```\nand then": {"```", "a  b", "```", "and then"},
	} {
		if got := rowsOf(10, text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// However a text comes in pieces, the same rows come out, none of them wider than the terminal, and nothing but blanks is lost.
func TestProseLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab*` \n#漢é-"))).Draw(t, "text")
		width := rapid.IntRange(4, 30).Draw(t, "width")
		cut := rapid.IntRange(0, len([]rune(text))).Draw(t, "cut")
		runes := []rune(text)
		whole, pieces := rowsOf(width, text), rowsOf(width, string(runes[:cut]), string(runes[cut:]))
		if !slices.Equal(whole, pieces) {
			t.Fatalf("in pieces %q, whole %q", pieces, whole)
		}
		for _, row := range whole {
			if ansi.StringWidth(row) >= width {
				t.Fatalf("%q is wider than %d", row, width)
			}
		}
		bare := func(s string) string { return strings.NewReplacer(" ", "", "\n", "").Replace(s) }
		if got := bare(strings.Join(whole, "")); got != bare(text) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func TestMarkdownIsStyledAndKept(t *testing.T) {
	p := Prose{Width: 80}
	got := append(p.Write("# Head\n**strong** `code` 2**3\n```go\nx := 1\n```\nplain"), p.End()...)
	want := []string{
		"\x1b[1m# Head\x1b[m", "\x1b[1m**strong**\x1b[m \x1b[36m`code`\x1b[m 2*\x1b[1m*3\x1b[m", "\x1b[36m```go\x1b[m", "\x1b[36mx := 1\x1b[m", "\x1b[36m```\x1b[m", "plain",
	}
	for i := range want {
		if ansi.Strip(got[i]) != ansi.Strip(want[i]) {
			t.Errorf("row %d is %q, want %q", i, got[i], want[i])
		}
	}
	if !strings.HasPrefix(got[0], "\x1b[1m") || !strings.Contains(got[1], "\x1b[36m`code`") || !strings.HasPrefix(got[3], "\x1b[36m") || strings.Contains(got[5], "\x1b") {
		t.Errorf("%q", got)
	}
}
