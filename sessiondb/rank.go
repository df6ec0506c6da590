package sessiondb

import (
	"math"
	"strings"
	"unicode/utf8"
)

// The usual constants of BM25: how fast repetition stops counting, and how much a long text is held against it.
const (
	bm25K = 1.2
	bm25B = 0.75
)

// rank scores the candidates by BM25 with the window as the collection. Whole-index statistics would cost a visit to every
// match of a common word.
func rank(list []candidate, e expr) {
	terms := e.terms()
	counts := make([][]int, len(list))
	seen := make([]int, len(terms))
	total := 0
	for i, c := range list {
		text := strings.ToLower(c.content)
		counts[i] = make([]int, len(terms))
		for j, t := range terms {
			if counts[i][j] = strings.Count(text, strings.ToLower(t.text)); counts[i][j] > 0 {
				seen[j]++
			}
		}
		total += len(text)
	}
	average := max(float64(total)/float64(max(len(list), 1)), 1)
	for i := range list {
		length := bm25K * (1 - bm25B + bm25B*float64(len(list[i].content))/average)
		for j, n := range counts[i] {
			weight := math.Log(1 + (float64(len(list)-seen[j])+0.5)/(float64(seen[j])+0.5))
			list[i].score += weight * float64(n) * (bm25K + 1) / (float64(n) + length)
		}
	}
}

const excerptRunes = 120

// excerpt cuts 120 characters around the first term that s holds, and marks it.
func excerpt(s string, e expr) string {
	at, length := firstMatch(s, e)
	start, end := at, at+length
	for n := 0; n < excerptRunes/4 && start > 0; n++ {
		_, size := utf8.DecodeLastRuneInString(s[:start])
		start -= size
	}
	for n := utf8.RuneCountInString(s[start:end]); n < excerptRunes && end < len(s); n++ {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	out := s[start:at] + ">>>" + s[at:at+length] + "<<<" + s[at+length:end]
	if length == 0 {
		out = s[start:end]
	}
	return ellipsis(start > 0) + out + ellipsis(end < len(s))
}

// firstMatch finds the first term without regard to the case of ASCII letters, which keep their width when they change it.
func firstMatch(s string, e expr) (at, length int) {
	lower := lowerASCII(s)
	best := -1
	for _, t := range e.terms() {
		if i := strings.Index(lower, lowerASCII(t.text)); i >= 0 && (best < 0 || i < best) {
			best, length = i, len(t.text)
		}
	}
	return max(best, 0), length
}

func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func ellipsis(cut bool) string {
	if cut {
		return "…"
	}
	return ""
}
