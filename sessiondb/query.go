package sessiondb

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of what a person types. More terms than this is a pasted document, not a question.
const (
	maxQueryRunes = 2048
	maxTerms      = 64
)

// term is a word or a quoted phrase. prefix: the word goes on.
type term struct {
	text   string
	prefix bool
}

// clause wants all of must and none of not; it always has something in must.
type clause struct{ must, not []term }

// expr is any of its clauses. It is all that is left of what a person typed: there is no text from which it cannot be
// made and none that can turn into a syntax error later, because every term is written as a quoted string.
type expr []clause

// parseQuery reads words, "phrases", prefix*, and the operators AND, OR, NOT in capitals. Brackets are spaces. What has
// no meaning (a dangling operator, an open quote, a NOT with nothing to take away from) is dropped.
func parseQuery(text string) expr {
	var out expr
	var now clause
	negate, terms := false, 0
	for word := range lex(text) {
		switch {
		case word.op == "OR":
			out, now, negate = out.add(now), clause{}, false
		case word.op == "NOT":
			negate = true
		case word.op == "AND":
			negate = false
		case terms == maxTerms:
		case negate:
			now.not, negate, terms = append(now.not, word.term), false, terms+1
		default:
			now.must, terms = append(now.must, word.term), terms+1
		}
	}
	return out.add(now)
}

func (e expr) add(c clause) expr {
	if len(c.must) == 0 {
		return e
	}
	return append(e, c)
}

// terms gives those that a hit can contain.
func (e expr) terms() []term {
	var out []term
	for _, c := range e {
		out = append(out, c.must...)
	}
	return out
}

// fts writes the expression in the language of FTS5. trigrams know no prefix: every term is a part already.
func (e expr) fts(prefixes bool) string {
	clauses := make([]string, len(e))
	for i, c := range e {
		clauses[i] = "(" + joinTerms(c.must, " AND ", prefixes) + ")"
		if len(c.not) > 0 {
			clauses[i] = "(" + clauses[i] + " NOT (" + joinTerms(c.not, " OR ", prefixes) + "))"
		}
	}
	return strings.Join(clauses, " OR ")
}

func joinTerms(terms []term, op string, prefixes bool) string {
	quoted := make([]string, len(terms))
	for i, t := range terms {
		quoted[i] = `"` + t.text + `"`
		if t.prefix && prefixes {
			quoted[i] += " *"
		}
	}
	return strings.Join(quoted, op)
}

// route says which index can answer.
func (e expr) route() (ix int, ok bool) {
	short, foreign := false, false
	for _, c := range e {
		for _, t := range append(append([]term{}, c.must...), c.not...) {
			short = short || utf8.RuneCountInString(t.text) < 3
			foreign = foreign || strings.IndexFunc(t.text, unspaced) >= 0 || !hasToken(t.text)
		}
	}
	if foreign {
		return fragments, !short
	}
	return words, true
}

// fragmentable: every term is long enough for a trigram.
func (e expr) fragmentable() bool {
	for _, c := range e {
		for _, t := range append(append([]term{}, c.must...), c.not...) {
			if utf8.RuneCountInString(t.text) < 3 {
				return false
			}
		}
	}
	return true
}

// unspaced reports a script that is written without spaces between words, which the word tokenizer takes as one word.
func unspaced(r rune) bool {
	return r >= 0x0E00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// hasToken reports that the word tokenizer finds a word in s: a letter, a number or a private character.
func hasToken(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.Co, r) }) >= 0
}
