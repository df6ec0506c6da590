package sessiondb

import (
	"fmt"

	"gatewayd/internal/sqlite"
)

// snippetTokens is how much of a row a hit shows.
const snippetTokens = 40

// matchRows walks the matches of an index in id order, a page at a time, until there are enough. bm25 is not asked: it
// visits every match there is before it gives the first one.
func (s *Store) matchRows(c *sqlite.Conn, ix int, e expr, q Query, mark int64, found *finding) error {
	if mark == 0 {
		return nil // empty, or stale and not to be touched
	}
	low, high := int64(0), mark
	for {
		page := found.room()
		n, last, err := s.matchPage(c, ix, e, q, low, high, page, found)
		if err != nil {
			return blameRead(c, ix, err)
		}
		if n < page || found.full() {
			return nil
		}
		if q.Sort == Oldest {
			low = last
		} else {
			high = last - 1
		}
	}
}

func (s *Store) matchPage(c *sqlite.Conn, ix int, e expr, q Query, low, high int64, page int, found *finding) (n int, last int64, err error) {
	where, extra := q.visible()
	table := indexes[ix].table
	sql := fmt.Sprintf(`SELECT %[2]s, %[3]s FROM %[1]s CROSS JOIN messages m ON m.id = %[1]s.rowid
 WHERE %[1]s MATCH ? AND %[1]s.rowid > ? AND %[1]s.rowid <= ? %[4]s ORDER BY %[1]s.rowid %[5]s LIMIT ?`,
		table, candidateColumns, shown(table, q), where, q.direction())
	args := append(append([]any{e.fts(ix == words), low, high}, extra...), page)
	for r, err := range c.Query(sql, args...) {
		if err != nil {
			return n, last, err
		}
		one := scanCandidate(r)
		one.show(r.Text(3), q)
		found.add(one)
		last, n = one.id, n+1
	}
	return n, last, nil
}

// blameRead decides whether a failed search means a damaged index: SQLite says so itself, or not even a plain question
// is answered any more. An expression that FTS5 does not take (a bug of ours) must not cost a rebuild.
func blameRead(c *sqlite.Conn, ix int, err error) error {
	if corrupt(err) {
		return &indexError{ix, err}
	}
	if sqlite.ClassOf(err) == sqlite.Other {
		table := indexes[ix].table
		if _, probe := exists(c, fmt.Sprintf(`SELECT 1 FROM %[1]s WHERE %[1]s MATCH '"abc"' LIMIT 1`, table)); probe != nil {
			return &indexError{ix, err}
		}
	}
	return err
}

// shown is the snippet, or where relevance is judged the text: snippets of what loses are wasted.
func shown(table string, q Query) string {
	if q.Sort == Relevance {
		return "m.content"
	}
	return fmt.Sprintf(`snippet(%s, 0, '>>>', '<<<', '…', %d)`, table, snippetTokens)
}

func (c *candidate) show(text string, q Query) {
	if q.Sort == Relevance {
		c.content = text
	} else {
		c.snippet = text
	}
}
