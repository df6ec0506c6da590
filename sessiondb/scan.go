package sessiondb

import (
	"context"
	"strings"

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
	for r, err := range c.Query(`SELECT `+candidateColumns+`, m.content FROM messages m WHERE m.id > ? AND m.id <= ?`+where+` AND (`+like+`) ORDER BY m.id `+q.direction(), args...) {
		if err != nil {
			return err
		}
		one := scanCandidate(r)
		if one.content = r.Text(3); q.Sort != Relevance {
			one.snippet, one.content = excerpt(one.content, e), ""
		}
		if found.add(one); found.full() {
			return nil
		}
	}
	return nil
}

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
