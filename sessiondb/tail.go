package sessiondb

import (
	"fmt"
	"sync"

	"gatewayd/internal/sqlite"
)

// tailIndex is a private index over the rows above the marks, with the same tokenizers, so that a search is complete
// before the indexer came by. It lives in memory, follows the rows from search to search, and is made anew when an old row
// changed.
type tailIndex struct {
	mu    sync.Mutex
	db    *sqlite.Memory
	parts [len(indexes)]tailPart
}

// tailPart holds the rows of one index with low < id <= high.
type tailPart struct{ low, high, edits int64 }

func (t *tailIndex) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.db != nil {
		t.db.Close() // memory only: nothing can be lost
		t.db = nil
	}
}

func (t *tailIndex) open() error {
	if t.db != nil {
		return nil
	}
	schema := ""
	for _, ix := range indexes {
		schema += fmt.Sprintf("CREATE VIRTUAL TABLE %s USING fts5(content, tokenize='%s');\n", ix.table, ix.tokenize)
	}
	db, err := sqlite.OpenMemory(schema)
	if err != nil {
		return err
	}
	t.db, t.parts = db, [len(indexes)]tailPart{}
	return nil
}

type tailHit struct {
	id      int64
	snippet string
}

// search brings the part up to what c sees and asks it.
func (t *tailIndex) search(c *sqlite.Conn, i int, match string, mark, edits int64) (hits []tailHit, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.open(); err != nil {
		return nil, err
	}
	part := t.parts[i]
	err = t.db.Do(func(tx *sqlite.Tx) error {
		if err := part.follow(c, tx, indexes[i], mark, edits); err != nil {
			return err
		}
		hits, err = askTail(tx, indexes[i].table, match)
		return err
	})
	if err != nil {
		t.db.Close() // whatever it was, the next search begins with an empty one
		t.db = nil
		return nil, fmt.Errorf("search new messages: %w", err)
	}
	t.parts[i] = part
	return hits, nil
}

// follow drops the rows that the real index holds by now and adds the new ones. A snapshot older than the part (another
// search was quicker), or a changed row, starts over.
func (p *tailPart) follow(c *sqlite.Conn, tx *sqlite.Tx, ix index, mark, edits int64) error {
	if mark < p.low || edits != p.edits {
		if _, err := tx.Exec(`DELETE FROM ` + ix.table); err != nil {
			return err
		}
		*p = tailPart{low: mark, high: mark, edits: edits}
	}
	if mark > p.low {
		if _, err := tx.Exec(`DELETE FROM `+ix.table+` WHERE rowid <= ?`, mark); err != nil {
			return err
		}
		p.low, p.high = mark, max(p.high, mark)
	}
	for r, err := range c.Query(`SELECT id, substr(content, 1, ?) FROM messages WHERE id > ? AND `+ix.rows+` ORDER BY id`, ix.chars, p.high) {
		if err != nil {
			return err
		}
		p.high = r.Int(0)
		if _, err := tx.Exec(`INSERT INTO `+ix.table+`(rowid, content) VALUES(?, ?)`, p.high, r.Text(1)); err != nil {
			return err
		}
	}
	return nil
}

func askTail(tx *sqlite.Tx, table, match string) ([]tailHit, error) {
	var hits []tailHit
	for r, err := range tx.Query(fmt.Sprintf(`SELECT rowid, snippet(%[1]s, 0, '>>>', '<<<', '…', %[2]d) FROM %[1]s WHERE %[1]s MATCH ? ORDER BY rowid DESC`,
		table, snippetTokens), match) {
		if err != nil {
			return nil, err
		}
		hits = append(hits, tailHit{r.Int(0), r.Text(1)})
	}
	return hits, nil
}

// searchTail adds what matches above the mark. Whether such a row may be shown is asked of the caller's snapshot.
func (s *Store) searchTail(c *sqlite.Conn, i int, e expr, q Query, mark, edits int64, found *finding) error {
	hits, err := s.tail.search(c, i, e.fts(i == words), mark, edits)
	if err != nil {
		return err
	}
	where, extra := q.visible()
	for _, h := range hits {
		if h.id <= mark {
			continue
		}
		for r, err := range c.Query(`SELECT `+candidateColumns+`, m.content FROM messages m WHERE m.id = ?`+where, append([]any{h.id}, extra...)...) {
			if err != nil {
				return err
			}
			one := scanCandidate(r)
			one.snippet, one.content = h.snippet, r.Text(3)
			found.add(one)
		}
	}
	return nil
}
