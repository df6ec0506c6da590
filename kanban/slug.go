package kanban

import (
	"strings"

	"gatewayd/internal/problem"
)

// Slug names a board. It is immutable, and it is the name of the board's directory, so it holds nothing that a path
// could understand. Only ParseSlug makes one from text.
type Slug string

// DefaultSlug is the board whose file lies at the root. It always exists.
const DefaultSlug Slug = "default"

const maxSlug = 64

// ParseSlug is the one rule for board names at every entry point: outer white space and case do not matter, then 1 to
// 64 of a-z, 0-9, '-' and '_', of which the first is a letter or a digit. Only ASCII is folded, because other letters
// fold differently from one language to the next and two programs would see two boards.
func ParseSlug(s string) (Slug, error) {
	slug := asciiLower(strings.TrimSpace(s))
	if !validSlug(slug) {
		return "", &problem.Error{
			Kind: problem.Invalid, Thing: "board name " + quote(s), What: "is not usable",
			Fate: "nothing was changed", Remedy: "use 1 to 64 of a-z, 0-9, - and _, and begin with a letter or a digit",
		}
	}
	return Slug(slug), nil
}

func validSlug(s string) bool {
	if s == "" || len(s) > maxSlug || s[0] == '-' || s[0] == '_' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// title is the display name of a board that was given none.
func (s Slug) title() string {
	words := strings.FieldsFunc(string(s), func(r rune) bool { return r == '-' || r == '_' })
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, " ")
}

// quote shows foreign text in a message, short and on one line.
func quote(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return strings.TrimSpace(string(appendJSONString(nil, s)))
}
