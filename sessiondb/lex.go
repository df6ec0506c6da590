package sessiondb

import (
	"iter"
	"strings"
	"unicode"
)

// lexeme is one term or one operator of a query.
type lexeme struct {
	op string
	term
}

// lex cuts a query into lexemes.
func lex(text string) iter.Seq[lexeme] {
	return func(yield func(lexeme) bool) {
		rest := []rune(strings.ToValidUTF8(text, " "))
		rest = rest[:min(len(rest), maxQueryRunes)]
		for len(rest) > 0 {
			var word lexeme
			var ok bool
			if word, rest, ok = nextLexeme(rest); ok && !yield(word) {
				return
			}
		}
	}
}

func nextLexeme(rest []rune) (word lexeme, left []rune, ok bool) {
	if rest[0] == '"' {
		if end := indexRune(rest[1:], '"'); end >= 0 {
			word.text = clean(rest[1 : 1+end])
			return word, rest[end+2:], searchable(word.text)
		}
		return word, rest[1:], false // an open quote is no quote
	}
	end := 0
	for end < len(rest) && rest[end] != '"' && !separates(rest[end]) {
		end++
	}
	if end == 0 {
		return word, rest[1:], false
	}
	word, ok = bareword(string(rest[:end]))
	return word, rest[end:], ok
}

func bareword(s string) (word lexeme, ok bool) {
	switch s {
	case "AND", "OR", "NOT":
		return lexeme{op: s}, true
	}
	word.prefix = strings.HasSuffix(s, "*")
	word.text = strings.Trim(clean([]rune(strings.ReplaceAll(s, "*", ""))), edges)
	return word, searchable(word.text)
}

// edges is punctuation that belongs to the sentence around a word and not to the word.
const edges = `+^:@/#&|~,;!?$=\'.`

// searchable: something that an index or a scan can look for. ASCII punctuation alone is nothing.
func searchable(s string) bool {
	return hasToken(s) || strings.IndexFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) >= 0
}

// separates: white space, control characters (a NUL would end the expression early) and brackets.
func separates(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("(){}[]<>", r)
}

// clean makes what is inside a phrase one line.
func clean(s []rune) string {
	return strings.Join(strings.FieldsFunc(string(s), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}

func indexRune(s []rune, want rune) int {
	for i, r := range s {
		if r == want {
			return i
		}
	}
	return -1
}
