package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/ncruces/go-sqlite3"
)

// stmtCacheMax bounds the statements one connection keeps. The rooms use some dozens of constant texts; only
// IN lists of varying length could grow past it.
const stmtCacheMax = 256

// stmt is a prepared statement and its place in the connection's cache.
type stmt struct {
	s    *sqlite3.Stmt
	row  Row
	busy bool // a loop stands on it
	kept bool // belongs to the cache
	used uint64
}

var errTransactionWord = errors.New("transactions and attached files are not the caller's: use Write and Read")

// acquire gives the prepared statement for a text. Texts are the cache's keys, so they should be constants. A
// statement that a surrounding loop stands on is prepared a second time for the inner one.
func (c *Conn) acquire(sql string) (*stmt, error) {
	c.clock++
	if st := c.stmts[sql]; st != nil && !st.busy {
		st.busy, st.used = true, c.clock
		return st, nil
	}
	if err := checkWord(sql); err != nil {
		return nil, err
	}
	return c.prepare(sql)
}

func (c *Conn) prepare(sql string) (*stmt, error) {
	s, tail, err := c.db.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, fmt.Errorf("prepare statement: %w", err)
	}
	if s == nil || !blank(tail) {
		if s != nil {
			s.Close()
		}
		return nil, fmt.Errorf("prepare statement: want exactly one, got %.60q", sql)
	}
	st := &stmt{s: s, row: Row{s}, busy: true, used: c.clock}
	if _, taken := c.stmts[sql]; !taken {
		c.makeRoom()
		st.kept = true
		c.stmts[sql] = st
	}
	return st, nil
}

// release ends the use of a statement. An un-reset SELECT would pin the WAL for everybody.
func (c *Conn) release(st *stmt) {
	st.busy = false
	if !st.kept {
		st.s.Close()
		return
	}
	st.s.Reset()
	st.s.ClearBindings()
}

// makeRoom drops the older half of the idle statements when the cache is full.
func (c *Conn) makeRoom() {
	if len(c.stmts) < stmtCacheMax {
		return
	}
	limit := c.clock - stmtCacheMax/2
	for sql, st := range c.stmts {
		if !st.busy && st.used < limit {
			st.s.Close()
			delete(c.stmts, sql)
		}
	}
}

// checkWord refuses the statements that would pull the transaction from under the batch.
func checkWord(sql string) error {
	word := strings.ToUpper(firstWord(sql))
	switch word {
	case "BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE", "VACUUM", "ATTACH", "DETACH":
		return fmt.Errorf("%s: %w", word, errTransactionWord)
	}
	return nil
}

func firstWord(sql string) string {
	sql = skipBlank(sql)
	if end := strings.IndexFunc(sql, func(r rune) bool { return !unicode.IsLetter(r) }); end >= 0 {
		return sql[:end]
	}
	return sql
}

// blank reports whether nothing but space and comments is left.
func blank(sql string) bool { return skipBlank(sql) == "" }

func skipBlank(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n\f;")
		var found bool
		switch {
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
		case strings.HasPrefix(sql, "/*"):
			if _, sql, found = strings.Cut(sql, "*/"); !found {
				return ""
			}
		default:
			return sql
		}
	}
}
