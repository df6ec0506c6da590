package sh

import "strings"

// Bounds of what one word may become, and of a word that is looked at for braces.
const (
	maxBraces     = 64
	maxBracesText = 4_096
)

// braces expands {a,b} in words and turns what is left of the marks back.
func braces(words []Word) []Word {
	var out []Word
	for _, w := range words {
		for _, text := range expand(w.Text, maxBraces) {
			v := w
			v.Text = unmark(text)
			out = append(out, v)
		}
	}
	return out
}

func expand(text string, limit int) []string {
	if len(text) > maxBracesText {
		return []string{text}
	}
	open := strings.IndexRune(text, markOpen)
	for open >= 0 {
		if parts, end := alternatives(text[open:]); len(parts) > 1 {
			var out []string
			for _, part := range parts {
				out = append(out, expand(text[:open]+part+text[open+end:], limit/len(parts))...)
				if len(out) >= limit {
					break
				}
			}
			if len(out) == 0 {
				return []string{text}
			}
			return out
		}
		next := strings.IndexRune(text[open+len(string(markOpen)):], markOpen)
		if next < 0 {
			break
		}
		open += len(string(markOpen)) + next
	}
	return []string{text}
}

// alternatives splits a text that begins with a brace at its commas, and says how long it is with both braces; none when the brace is
// not closed or has no comma.
func alternatives(text string) (parts []string, length int) {
	depth, from := 0, len(string(markOpen))
	for i, r := range text {
		switch r {
		case markOpen:
			depth++
		case markComma:
			if depth == 1 {
				parts = append(parts, text[from:i])
				from = i + len(string(r))
			}
		case markClose:
			if depth--; depth == 0 {
				return append(parts, text[from:i]), i + len(string(r))
			}
		}
	}
	return nil, 0
}

var unmarker = strings.NewReplacer(string(markOpen), "{", string(markComma), ",", string(markClose), "}")

func unmark(text string) string { return unmarker.Replace(text) }
