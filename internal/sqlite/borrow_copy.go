package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Copy makes a file of its own of the borrowed database, by SQLite's backup, and syncs it. Nothing in it was verified: see Sealed.
func (b *Borrowed) Copy(ctx context.Context, to string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn == nil {
		return errClosed
	}
	out, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make copy: %w", err)
	}
	defer out.Close()
	err = guard(func() error {
		backup, err := b.conn.db.BackupInit("main", fileURI(to, ""))
		if err != nil {
			return fmt.Errorf("begin copy: %w", err)
		}
		for done := false; !done && err == nil; {
			if err = ctx.Err(); err == nil {
				done, err = backup.Step(copyStep)
			}
		}
		return errors.Join(err, backup.Close(), out.Sync())
	})
	return b.explain(causeOf(ctx, err))
}
