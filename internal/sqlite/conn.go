package sqlite

import (
	"fmt"
	"iter"
	"slices"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// Conn is one connection inside a transaction. It belongs to the function it was handed to and must not outlive
// it, nor be used by another goroutine.
type Conn struct {
	db    *sqlite3.Conn
	stmts map[string]*stmt // the callers' statements by text
	own   map[string]*stmt // BEGIN, COMMIT and the like; callers cannot reach these
	clock uint64

	main vfs.File         // the library's own descriptor of the database
	wal  vfs.File         // of the -wal, nil without one
	shm  vfs.SharedMemory // of the -shm, nil without one

	handed int // rows given out since the transaction began; a read is replayed only while there are none
}

// Query runs a SELECT (or a statement with RETURNING) and yields its rows. The statement is prepared once per
// connection and reset when the loop ends, however it ends. An error is yielded once, last, with a nil row.
func (c *Conn) Query(sql string, args ...any) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		st, err := c.acquire(sql)
		if err != nil {
			yield(nil, err)
			return
		}
		defer c.release(st)
		if err := bind(st.s, args); err != nil {
			yield(nil, err)
			return
		}
		for st.s.Step() {
			c.handed++
			if !yield(&st.row, nil) {
				return
			}
		}
		if err := st.s.Err(); err != nil {
			yield(nil, fmt.Errorf("run query: %w", err))
		}
	}
}

// Row copies the first row into dest (pointers to string, int64, int, bool, float64, []byte, *string, *int64) and
// reports whether there was one. Without one dest is untouched.
func (c *Conn) Row(sql string, args []any, dest ...any) (bool, error) {
	for row, err := range c.Query(sql, args...) {
		if err != nil {
			return false, err
		}
		return true, row.scan(dest)
	}
	return false, nil
}

// Tx is a connection that may write. It ends with the function it was handed to.
type Tx struct{ *Conn }

// Result says what a statement did.
type Result struct {
	Changes int64 // rows inserted, updated or deleted
	LastID  int64 // rowid of the last inserted row
}

// Exec runs one statement to its end.
func (t *Tx) Exec(sql string, args ...any) (Result, error) {
	st, err := t.acquire(sql)
	if err != nil {
		return Result{}, err
	}
	defer t.release(st)
	if err := bind(st.s, args); err != nil {
		return Result{}, err
	}
	if err := st.s.Exec(); err != nil {
		return Result{}, fmt.Errorf("run statement: %w", err)
	}
	return Result{Changes: t.db.Changes(), LastID: t.db.LastInsertRowID()}, nil
}

// Script runs several statements without arguments: schema work, not hot paths. It prepares each one, because a
// fault inside the library's own multi-statement call leaves a statement nobody can finalize.
func (t *Tx) Script(sql string) error {
	for !blank(sql) {
		if err := checkWord(sql); err != nil {
			return err
		}
		s, tail, err := t.db.Prepare(sql)
		if err != nil {
			return fmt.Errorf("prepare script: %w", err)
		}
		if s == nil {
			return nil
		}
		err = s.Exec()
		s.Close()
		if err != nil {
			return fmt.Errorf("run script at %.60q: %w", skipBlank(sql), err)
		}
		sql = tail
	}
	return nil
}

// control runs one of our own transaction statements, prepared once like all others.
func (c *Conn) control(sql string) error {
	st := c.own[sql]
	if st == nil {
		s, _, err := c.db.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
		if err != nil {
			return fmt.Errorf("prepare %s: %w", sql, err)
		}
		st = &stmt{s: s}
		c.own[sql] = st
	}
	if err := st.s.Exec(); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// finalize ends every statement, ours and those a fault left behind, so that close is not refused.
func (c *Conn) finalize() {
	clear(c.stmts)
	clear(c.own)
	for _, s := range slices.Collect(c.db.Stmts()) {
		s.Close()
	}
}

// close ends a healthy connection. It never checkpoints.
func (c *Conn) close() error {
	c.finalize()
	return c.db.Close()
}
