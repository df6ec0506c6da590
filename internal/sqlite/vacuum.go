package sqlite

import (
	"context"
	"fmt"
	"os"

	"github.com/ncruces/go-sqlite3"
)

// Vacuumed says what a vacuum saved, in bytes of the main file.
type Vacuumed struct{ Before, After int64 }

// Vacuum writes the whole database anew without its free pages. It needs the file alone: it refuses while another
// process, or another handle of this one, has it open, and holds up every write of this handle while it runs. It
// takes as much space again as the database has, in the -wal and in the temporary directory.
func (f *File) Vacuum(ctx context.Context) (Vacuumed, error) {
	var v Vacuumed
	if err := f.admit(OpVacuum); err != nil {
		return v, err
	}
	if err := f.refuseForeign(OpVacuum); err != nil {
		return v, err
	}
	err := f.maintain(ctx, OpVacuum, func(c *Conn) error {
		f.DropIdle()
		if err := f.refuseHolders(OpVacuum, f.watch.descriptors()+1); err != nil {
			return err
		}
		v.Before = f.size()
		if err := f.vacuum(c); err != nil {
			return err
		}
		v.After = f.size()
		return f.checkIdentity() // it was written in place: what is held is still what lies there
	})
	return v, err
}

func (f *File) size() int64 {
	info, err := os.Stat(f.path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// vacuum runs under an exclusive lock that opens after it are refused by. The truncated -wal at the end is the only
// one in the life of a handle: nobody else is there who could still need it.
func (f *File) vacuum(c *Conn) (err error) {
	if _, err := c.pragma("locking_mode=EXCLUSIVE"); err != nil {
		return fmt.Errorf("vacuum: %w", err)
	}
	defer func() {
		if end := c.unlockOthers(); err == nil {
			err = end
		}
	}()
	for _, sql := range []string{sqlBegin, sqlRollback, "VACUUM"} {
		if err := c.control(sql); err != nil {
			return fmt.Errorf("vacuum: %w", err)
		}
	}
	if f.journal.Mode != "wal" {
		return nil
	}
	if _, _, err := c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE); err != nil {
		return fmt.Errorf("checkpoint after vacuum: %w", err)
	}
	f.writer.wal = walState{restarted: f.writer.wal.restarted}
	return nil
}

// unlockOthers gives the exclusive lock back. SQLite does it at the end of the next transaction.
func (c *Conn) unlockOthers() error {
	if _, err := c.pragma("locking_mode=NORMAL"); err != nil {
		return fmt.Errorf("give the exclusive lock back: %w", err)
	}
	for _, sql := range []string{sqlBegin, sqlRollback} {
		if err := c.control(sql); err != nil {
			return fmt.Errorf("give the exclusive lock back: %w", err)
		}
	}
	return nil
}
