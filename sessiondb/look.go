package sessiondb

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"gatewayd/internal/sqlite"
)

// Look is what a store's file holds, read without opening the store: from a copy, for the doctor.
type Look struct {
	Foreign  error // it is no store of ours; nothing else is known then
	Version  int64
	Newest   int64 // the version that this program writes
	Missing  []string
	Sessions int64
	Messages int64
	Last     time.Time // when the newest message was made; zero without one
	Indexes  []IndexState
	Trigram  bool // its tokenizer for scripts without spaces is there
}

// LookAt reads a file. It writes nothing.
func LookAt(c *sqlite.Conn, path string) (Look, error) {
	l := Look{Newest: schemaVersion}
	if _, err := stale(c, path, schemaVersion); errors.Is(err, ErrForeignFile) {
		l.Foreign = err
		return l, nil
	}
	if _, err := c.Row(`PRAGMA user_version`, nil, &l.Version); err != nil {
		return l, fmt.Errorf("read schema version: %w", err)
	}
	if l.Version != schemaVersion {
		return l, l.count(c) // what an older or newer one lacks of ours is no drift
	}
	var err error
	if l.Missing, err = lacking(c); err != nil || len(l.Missing) > 0 {
		return l, err
	}
	for i, ix := range indexes {
		mark, stale, err := ix.readMark(c)
		if err != nil {
			return l, err
		}
		_, behind, err := ix.behind(c, countedBehind)
		if err != nil {
			return l, err
		}
		l.Indexes = append(l.Indexes, IndexState{Name: ix.table, Mark: mark, Behind: behind, Stale: stale})
		l.Trigram = l.Trigram || i == fragments
	}
	return l, l.count(c)
}

func (l *Look) count(c *sqlite.Conn) error {
	var last *int64
	if _, err := c.Row(`SELECT count(*) FROM sessions`, nil, &l.Sessions); err != nil {
		return fmt.Errorf("count sessions: %w", err)
	}
	if _, err := c.Row(`SELECT count(*), max(created_at) FROM messages`, nil, &l.Messages, &last); err != nil {
		return fmt.Errorf("count messages: %w", err)
	}
	if last != nil {
		l.Last = time.UnixMicro(*last)
	}
	return nil
}

const selectObjects = `SELECT s.name, '' FROM sqlite_schema s WHERE s.name NOT LIKE 'sqlite_%'
UNION ALL SELECT s.name, c.name FROM sqlite_schema s JOIN pragma_table_info(s.name) c WHERE s.type = 'table' AND s.sql NOT LIKE 'CREATE VIRTUAL%'`

// lacking lists the tables, indexes, triggers and columns that a file of this version has and this one lacks.
func lacking(c *sqlite.Conn) ([]string, error) {
	model, err := sqlite.OpenMemory(`SELECT 1`)
	if err != nil {
		return nil, err
	}
	defer model.Close()
	var want []string
	err = model.Do(func(tx *sqlite.Tx) error {
		if err := migrate(tx, schemaVersion); err != nil {
			return err
		}
		want, err = objects(tx.Conn)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make a schema to compare with: %w", err)
	}
	have, err := objects(c)
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, name := range have {
		there[name] = true
	}
	var lacks []string
	for _, name := range want {
		if !there[name] {
			lacks = append(lacks, name)
		}
	}
	return lacks, nil
}

func objects(c *sqlite.Conn) (names []string, err error) {
	for row, err := range c.Query(selectObjects) {
		if err != nil {
			return nil, fmt.Errorf("read schema: %w", err)
		}
		names = append(names, strings.TrimSuffix(row.Text(0)+"."+row.Text(1), "."))
	}
	return names, nil
}

// ProbeWrite writes a session and a message as a turn would, for a transaction that is taken back.
func ProbeWrite(tx *sqlite.Tx) error { return probe(tx) }

// ProbeIndexes has each search index compared with the rows that it holds, for a transaction that is taken back: it names those that do not agree,
// which the check of pages does not find. It reads all rows.
func ProbeIndexes(tx *sqlite.Tx) (wrong []string) {
	for _, ix := range indexes {
		if _, stale, err := ix.readMark(tx.Conn); stale && err == nil {
			continue // out of use; what it holds is nobody's concern
		}
		if err := tx.Script(fmt.Sprintf(`INSERT INTO %[1]s(%[1]s, rank) VALUES('integrity-check', 1)`, ix.table)); err != nil {
			wrong = append(wrong, fmt.Sprintf("search index %s does not agree with the messages: %v", ix.table, err))
		}
	}
	return wrong
}
