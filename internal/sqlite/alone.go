package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
)

// refuseHolders refuses what must be done alone while any process has the file open, this one included. An idle
// reader of a database in rollback mode holds no lock, so locks alone do not tell.
func (f *File) refuseHolders(what Operation, own int) error {
	if err := f.refuseForeign(what); err != nil {
		return err
	}
	if n := ownDescriptors(f.path); n > own {
		return f.held(what, "this process")
	}
	return nil
}

// refuseForeign is refuseHolders for other processes alone.
func (f *File) refuseForeign(what Operation) error {
	if mutation.On("maintenance-without-holder-check") || mutation.On("index-made-anew-beside-a-holder") {
		return nil
	}
	holders, err := Holders(f.path)
	if err != nil {
		return f.refuse(Busy, problem.Busy, fmt.Sprintf("cannot be checked for holders before %s", what), "look who has it open with `fuser`", err)
	}
	if len(holders) > 0 {
		names := make([]string, len(holders))
		for i, h := range holders {
			names[i] = h.String()
		}
		return f.held(what, strings.Join(names, ", "))
	}
	return nil
}

func (f *File) held(what Operation, who string) error {
	return f.refuse(Busy, problem.Busy, fmt.Sprintf("is open in %s, and %s needs it alone", who, what), "stop what has it open, then try again", nil)
}

// ownDescriptors counts this process's descriptors of a file. One that cannot be looked at counts.
func ownDescriptors(path string) (n int) {
	here, err := statInode(path)
	if err != nil || here == (inode{}) {
		return 0
	}
	found, err := procfs.OwnFiles(func(target string) bool { return target == path })
	if err != nil {
		return 0 // Holders has said so
	}
	for _, fd := range found {
		if here.is(fd.Dev, fd.Ino) {
			n++
		}
	}
	return n
}

// sole opens the connection that has a database to itself until it is closed: a later opener is refused by its lock
// and not joined. It needs no schema, so a damaged file can be held too; one that is no database cannot.
func (f *File) sole(ctx context.Context, what Operation) (*Conn, error) {
	if err := f.refuseHolders(what, 0); err != nil {
		return nil, err
	}
	c, err := f.dial()
	if err != nil {
		return nil, f.explain(err, "it was left as it is")
	}
	err = guard(func() error { return c.lockOut() })
	if err == nil { // who opened it a moment ago waits for its lock now and would write when we are done
		err = f.refuseHolders(what, 1)
	}
	if err != nil {
		f.drop(c)
		if ClassOf(err) == Busy && hasCode(err) {
			return nil, f.held(what, "another process or another part of this one")
		}
		return nil, f.explain(err, "it was left as it is")
	}
	return c, ctx.Err()
}

// lockOut takes the exclusive lock and keeps it. writable_schema lets a file be opened whose schema cannot be read or
// whose tail is missing; nothing is written by that.
func (c *Conn) lockOut() error {
	if err := c.db.BusyTimeout(0); err != nil {
		return err
	}
	for _, text := range []string{"writable_schema=ON", "locking_mode=EXCLUSIVE", "synchronous=FULL", "mmap_size=0", "cell_size_check=ON"} {
		if _, err := c.pragma(text); err != nil {
			return fmt.Errorf("lock database: %w", err)
		}
	}
	for _, sql := range []string{"BEGIN EXCLUSIVE", sqlRollback} {
		if err := c.control(sql); err != nil {
			return fmt.Errorf("lock database: %w", err)
		}
	}
	return nil
}

// settleAlone empties the -wal into the database, so that the main file alone is all of it. It reports whether that
// was possible.
func (c *Conn) settleAlone(f *File) error {
	if _, err := c.pragma("journal_mode"); err != nil {
		return fmt.Errorf("probe journal mode: %w", err)
	}
	if _, _, err := c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE); err != nil {
		return fmt.Errorf("checkpoint alone: %w", err)
	}
	if hasBytes(f.walPath) || hasBytes(f.path+"-journal") {
		return errors.New("something is left beside the database")
	}
	return nil
}
