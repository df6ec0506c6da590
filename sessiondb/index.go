package sessiondb

import (
	"fmt"

	"gatewayd/internal/sqlite"
)

// index is one full-text index over messages. Its content is a view that ends at the index's own mark, so rows above
// the mark are outside of it by definition: an integrity check holds with a backlog, and a rebuild never takes a row
// twice. The mark moves in the transaction that indexes the rows.
type index struct {
	table, view string
	mark, stale string // keys in meta
	tokenize    string
	rows        string // which rows belong in it
	chars       int    // how much of a row
}

// longBytes is where a row begins to be long; the index messages_long is written with the same number.
const longBytes = 16384

const (
	words     = 0 // unicode61: words, phrases, prefixes
	fragments = 1 // trigram: any three characters in a row, for scripts without spaces and for parts of words
)

// Tool output is not in the fragments: it is most of the bytes, trigrams cost five times as much as words, and what a
// command printed is found by its words. Of a long row the beginning is indexed, as much as fits into one step of the
// indexer: a pasted book would hold the writer for seconds. The rest of it is scanned (see scanLong).
var indexes = [...]index{
	words: {
		table: "messages_fts", view: "messages_fts_rows", mark: "fts_mark", stale: "fts_stale",
		tokenize: "unicode61 remove_diacritics 2", rows: "1", chars: 65536,
	},
	fragments: {
		table: "messages_tri", view: "messages_tri_rows", mark: "tri_mark", stale: "tri_stale",
		tokenize: "trigram", rows: "role <> 'tool'", chars: longBytes,
	},
}

// create makes the table, its view and a mark at zero. Automatic merges are off: they come at a bad moment and as long
// as they like (20 ms and more); the indexer merges in steps of its own. A crisis merge stays as the last resort.
func (ix index) create(tx *sqlite.Tx) error {
	return tx.Script(fmt.Sprintf(`
INSERT OR REPLACE INTO meta(k, v) VALUES('%[3]s', 0);
DELETE FROM meta WHERE k = '%[4]s';
CREATE VIEW IF NOT EXISTS %[2]s AS SELECT id, substr(content, 1, %[7]d) AS content FROM messages
 WHERE id <= (SELECT v FROM meta WHERE k = '%[3]s') AND %[6]s;
CREATE VIRTUAL TABLE %[1]s USING fts5(content, content='%[2]s', content_rowid='id', tokenize='%[5]s');
INSERT INTO %[1]s(%[1]s, rank) VALUES('automerge', 0);
INSERT INTO %[1]s(%[1]s, rank) VALUES('crisismerge', 64);
`, ix.table, ix.view, ix.mark, ix.stale, ix.tokenize, ix.rows, ix.chars))
}

// indexError says that an index and not a row is the trouble.
type indexError struct {
	ix  int
	err error
}

func (e *indexError) Error() string {
	return fmt.Sprintf("search index %s: %v", indexes[e.ix].table, e.err)
}
func (e *indexError) Unwrap() error { return e.err }

// Is makes it an error of an index for the file: it asks Spares before it believes that more is damaged.
func (e *indexError) Is(target error) bool { return target == sqlite.ErrInIndex }

func blame(ix int, err error) error {
	if err == nil {
		return nil
	}
	return &indexError{ix, err}
}

// readMark gives the id up to which the index holds rows. A missing mark is a stale index: nobody knows what is in it.
func (ix index) readMark(c *sqlite.Conn) (mark int64, stale bool, err error) {
	var at *int64
	if _, err := c.Row(`SELECT v FROM meta WHERE k = ?`, []any{ix.mark}, &at); err != nil {
		return 0, false, err
	}
	stale, err = exists(c, `SELECT 1 FROM meta WHERE k = ?`, ix.stale)
	if at == nil || stale || err != nil {
		return 0, true, err
	}
	return *at, false, nil
}

// setStale takes the index out of use: with its mark at zero every row lies above it, so searches scan, and the
// indexer builds it anew.
func (ix index) setStale(tx *sqlite.Tx, why int) error {
	_, err := tx.Exec(`INSERT OR REPLACE INTO meta(k, v) VALUES(?1, 0), (?2, max(?3, coalesce((SELECT v FROM meta WHERE k = ?2), 0)))`, ix.mark, ix.stale, why)
	return err
}

// Why an index is stale.
const (
	staleContent = 1 // what it holds is wrong
	stalePages   = 2 // pages of its tables are damaged: they must not even be walked through to free them
)

// forget takes a row out of the indexes before its text changes: an external-content index must be shown the text that
// it holds.
func forget(tx *sqlite.Tx, id int64) error { return eachIndex(tx, id, index.forgetSQL) }

// learn puts the row back with its new text, where the indexes have come that far.
func learn(tx *sqlite.Tx, id int64) error { return eachIndex(tx, id, index.learnSQL) }

func (ix index) forgetSQL() string {
	return fmt.Sprintf(`INSERT INTO %[1]s(%[1]s, rowid, content) SELECT 'delete', id, content FROM %[2]s WHERE id = ?`, ix.table, ix.view)
}

func (ix index) learnSQL() string {
	return fmt.Sprintf(`INSERT INTO %s(rowid, content) SELECT id, content FROM %s WHERE id = ?`, ix.table, ix.view)
}

func eachIndex(tx *sqlite.Tx, id int64, sql func(index) string) error {
	for i, ix := range indexes {
		mark, _, err := ix.readMark(tx.Conn)
		if err != nil {
			return err
		}
		if id > mark {
			continue // not even to be looked at: a stale index may be damaged
		}
		if _, err := tx.Exec(sql(ix), id); err != nil {
			return blame(i, err)
		}
		if _, err := tx.Exec(ix.flushSQL()); err != nil { // else the COMMIT meets the damage, and that is nobody's
			return blame(i, err)
		}
	}
	return nil
}

func exists(c *sqlite.Conn, sql string, args ...any) (bool, error) {
	var one int64
	return c.Row(sql, args, &one)
}
