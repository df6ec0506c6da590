package hermes

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// Store is one state.db, as it was when it was opened. It is safe for concurrent use.
type Store struct {
	path string
	file *sqlite.Borrowed

	id      string // of the store, "" where it has none (before version 23 or so)
	version int64
	columns map[string][]string // by table, in the order of the file
}

// tables are those that are read. The first two make a state.db.
var tables = []string{"sessions", "messages", "system_prompts", "session_model_usage", "state_meta", "schema_version"}

// Open finds the state.db of a directory, or takes the file that is named, and copies it to scratch for reading. Errors are
// *problem.Error.
func Open(ctx context.Context, path, scratch string) (*Store, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "state.db")
	}
	file, err := sqlite.Borrow(ctx, sqlite.BorrowOptions{Path: path, Label: "Hermes state.db", Scratch: scratch})
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, file: file, columns: map[string][]string{}}
	if err := file.Read(ctx, s.look); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if err := s.check(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return s, nil
}

// Close removes the copy.
func (s *Store) Close() error { return s.file.Close() }

// Path is the file that was read.
func (s *Store) Path() string { return s.path }

// ID names the store across copies and moves; "" where it has no name.
func (s *Store) ID() string { return s.id }

// Version is the schema version that the file states; 0 when it states none.
func (s *Store) Version() int64 { return s.version }

// look learns what the file has.
func (s *Store) look(c *sqlite.Conn) error {
	for _, table := range tables {
		s.columns[table] = nil
		for r, err := range c.Query(`SELECT name FROM pragma_table_info(?)`, table) {
			if err != nil {
				return err
			}
			s.columns[table] = append(s.columns[table], r.Text(0))
		}
	}
	if s.has("schema_version", "version") {
		if _, err := c.Row(`SELECT max(version) FROM schema_version`, nil, &s.version); err != nil {
			return err
		}
	}
	if !s.has("state_meta", "key") || !s.has("state_meta", "value") {
		return nil
	}
	_, err := c.Row(`SELECT value FROM state_meta WHERE key = 'store_instance_id'`, nil, &s.id)
	return err
}

func (s *Store) has(table, column string) bool {
	for _, name := range s.columns[table] {
		if name == column {
			return true
		}
	}
	return false
}

// needed are the columns without which a file is no state.db.
var needed = map[string][]string{"sessions": {"id", "started_at"}, "messages": {"id", "session_id", "role", "content"}}

func (s *Store) check() error {
	for table, columns := range needed {
		for _, column := range columns {
			if !s.has(table, column) {
				return &problem.Error{
					Kind: problem.Invalid, Thing: "file " + s.path, What: "is no Hermes state.db: it has no " + table + "." + column,
					Fate: "nothing was imported", Remedy: "name the directory of Hermes (where its state.db lies), or the state.db itself",
				}
			}
		}
	}
	return nil
}

// cells gives the query text for columns that may be missing: those become NULL.
func (s *Store) cells(table, alias string, columns ...string) string {
	out := ""
	for i, name := range columns {
		if i > 0 {
			out += ", "
		}
		if s.has(table, name) {
			out += alias + "." + strconv.Quote(name)
		} else {
			out += "NULL"
		}
	}
	return out
}
