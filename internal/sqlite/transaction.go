package sqlite

import (
	"context"
	"errors"
	"fmt"
)

// The statements of our own, prepared once per connection.
const (
	sqlBegin     = "BEGIN IMMEDIATE"
	sqlBeginRead = "BEGIN DEFERRED"
	sqlCommit    = "COMMIT"
	sqlRollback  = "ROLLBACK"
	sqlSavepoint = "SAVEPOINT op"
	sqlRelease   = "RELEASE op"
	sqlUndo      = "ROLLBACK TO op"
)

// errStillOpen: a transaction that cannot be ended makes the connection useless; closing it ends it.
var errStillOpen = errors.New("transaction is still open after ROLLBACK")

func isStillOpen(err error) bool { return errors.Is(err, errStillOpen) }

// rollback ends whatever transaction is open, and verifies that it did.
func (c *Conn) rollback() error {
	if c.db.GetAutocommit() {
		return nil // SQLite had rolled back by itself
	}
	err := c.control(sqlRollback)
	if !c.db.GetAutocommit() {
		return fmt.Errorf("%w: %w", errStillOpen, err)
	}
	return nil
}

// inRead runs fn in a read transaction, interrupted when ctx ends.
func (c *Conn) inRead(ctx context.Context, fn func(*Conn) error) (err error) {
	c.handed = 0
	if err := c.control(sqlBeginRead); err != nil {
		return err
	}
	c.db.SetInterrupt(ctx)
	defer func() {
		c.db.SetInterrupt(context.Background())
		if end := c.rollback(); err == nil {
			err = end
		}
	}()
	return fn(c)
}
