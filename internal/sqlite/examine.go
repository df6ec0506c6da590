package sqlite

import (
	"context"
	"errors"
	"fmt"
)

// Faults is what SQLite's own check says of a database, told apart by what it costs: Pages hold rows, Indexes can be
// made anew from the rows.
type Faults struct {
	Pages   []string
	Indexes []string
}

// Examine has SQLite check the whole copy. It reads all of it.
func (b *Borrowed) Examine(ctx context.Context) (f Faults, err error) {
	var all []string
	err = b.Read(ctx, func(c *Conn) (err error) {
		all, err = c.faults()
		return err
	})
	for _, text := range all {
		if aboutIndex(text) || aboutPlainIndex(text) {
			f.Indexes = append(f.Indexes, text)
			continue
		}
		f.Pages = append(f.Pages, text)
	}
	return f, err
}

// Try runs do in a transaction on the copy and takes it back: what a write meets there, it would meet in the original.
func (b *Borrowed) Try(do func(*Tx) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn == nil {
		return errClosed
	}
	err := guard(func() (err error) {
		if _, err := b.conn.pragma("query_only=0"); err != nil {
			return err
		}
		defer func() {
			_, on := b.conn.pragma("query_only=1")
			err = errors.Join(err, on)
		}()
		if err := b.conn.control(sqlBegin); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		err = do(&Tx{b.conn})
		return errors.Join(err, b.conn.rollback())
	})
	return b.explain(err)
}
