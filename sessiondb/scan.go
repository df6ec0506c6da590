package sessiondb

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gatewayd/internal/sqlite"
)

// scanIDs is how many ids one read of a scan covers.
const scanIDs = 2000

// scanRange looks at every visible row with low < id <= high, in pieces of one read each.
func (s *Store) scanRange(ctx context.Context, e expr, q Query, low, high int64, found *finding) error {
	if err := s.file.Read(ctx, func(c *sqlite.Conn) error {
		var last int64
		_, err := c.Row(`SELECT coalesce(max(id), 0) FROM messages`, nil, &last)
		high = min(high, last)
		return err
	}); err != nil {
		return err
	}
	for low < high && !found.full() {
		from, to := max(low, high-scanIDs), high
		if q.Sort == Oldest {
			from, to = low, min(high, low+scanIDs)
		}
		if err := s.file.Read(ctx, func(c *sqlite.Conn) error { return s.scanPiece(c, e, q, from, to, found) }); err != nil {
			return err
		}
		if q.Sort == Oldest {
			low = to
		} else {
			high = from
		}
	}
	return nil
}

func (s *Store) scanPiece(c *sqlite.Conn, e expr, q Query, low, high int64, found *finding) error {
	where, extra := q.visible()
	like, patterns := e.like()
	args := append(append([]any{low, high}, extra...), patterns...)
	sql := `SELECT ` + candidateColumns + `, m.content FROM messages m WHERE m.id > ? AND m.id <= ?` + where + ` AND (` + like + `) ORDER BY m.id ` + q.direction()
	for r, err := range c.Query(sql, args...) {
		if err != nil {
			return err
		}
		if found.add(scanned(r, e, q)); found.full() {
			return nil
		}
	}
	return nil
}

func scanned(r *sqlite.Row, e expr, q Query) candidate {
	one := scanCandidate(r)
	if one.content = r.Text(3); q.Sort != Relevance {
		one.snippet, one.content = excerpt(one.content, e), ""
	}
	return one
}

// scanLong looks through the rows of which an index holds only the beginning. They are few, and an index leads to them.
func (s *Store) scanLong(c *sqlite.Conn, ix index, e expr, q Query, found *finding) error {
	where, extra := q.visible()
	like, patterns := e.like()
	args := append(append(append([]any{ix.chars}, extra...), patterns...), found.want)
	sql := fmt.Sprintf(`SELECT %s, m.content FROM messages m INDEXED BY messages_long WHERE octet_length(m.content) > %d
 AND octet_length(m.content) > ? AND %s %s AND (%s) ORDER BY m.id %s LIMIT ?`, candidateColumns, longBytes, ix.rows, where, like, q.direction())
	for r, err := range c.Query(sql, args...) {
		if err != nil {
			return err
		}
		if ix.table != indexes[words].table || e.asWords(r.Text(3)) {
			found.add(scanned(r, e, q))
		}
	}
	found.long = len(found.list)
	return nil
}

// asWords says whether a row that a scan found has the terms as words of their own, as the word index would: a search
// for "eed" must not stop at a long row with "needle".
func (e expr) asWords(text string) bool {
	text = lowerASCII(text)
	return slices.ContainsFunc(e, func(c clause) bool {
		return !slices.ContainsFunc(c.must, func(t term) bool { return !hasWord(text, t) })
	})
}

// hasWord looks for an occurrence of t between characters that are no part of a word.
func hasWord(text string, t term) bool {
	want := lowerASCII(t.text)
	for from := 0; ; {
		at := strings.Index(text[from:], want)
		if at < 0 {
			return false
		}
		begin, end := from+at, from+at+len(want)
		before, _ := utf8.DecodeLastRuneInString(text[:begin])
		after, _ := utf8.DecodeRuneInString(text[end:])
		if !inWord(before) && (t.prefix || !inWord(after)) {
			return true
		}
		_, size := utf8.DecodeRuneInString(text[begin:])
		from = begin + size
	}
}

func inWord(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r)) }

// like writes the expression for a scan: a term is found anywhere, ASCII letters in either case.
func (e expr) like() (sql string, patterns []any) {
	clauses := make([]string, len(e))
	for i, c := range e {
		parts := make([]string, 0, len(c.must)+len(c.not))
		for _, t := range c.must {
			parts, patterns = append(parts, `m.content LIKE ? ESCAPE '\'`), append(patterns, likePattern(t.text))
		}
		for _, t := range c.not {
			parts, patterns = append(parts, `m.content NOT LIKE ? ESCAPE '\'`), append(patterns, likePattern(t.text))
		}
		clauses[i] = strings.Join(parts, " AND ")
	}
	return "(" + strings.Join(clauses, ") OR (") + ")", patterns
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

func likePattern(s string) string { return "%" + likeEscaper.Replace(s) + "%" }
