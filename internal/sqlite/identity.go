package sqlite

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"

	"gatewayd/internal/mutation"
)

// inode names a file on this machine; the zero value means "not there" or "not known".
type inode struct {
	major, minor uint32
	ino          uint64
}

// identity is what a File holds open. The sidecars are zero outside WAL.
type identity struct{ main, wal, shm inode }

// descriptors are the files of a connection that lead to a kernel descriptor.
type descriptor interface{ Fd() uintptr }

// identify reads the identity from the connection's own descriptors.
func (c *Conn) identify() (identity, error) {
	var id identity
	for _, part := range []struct {
		file any
		into *inode
	}{{unwrap(c.main), &id.main}, {unwrap(c.wal), &id.wal}, {c.shm, &id.shm}} {
		d, ok := part.file.(descriptor)
		if !ok {
			continue
		}
		node, err := fdInode(int(d.Fd()))
		if err != nil {
			return id, fmt.Errorf("identify database: %w", err)
		}
		*part.into = node
	}
	return id, nil
}

// checkIdentity compares what is held with what the paths name now, and halts the File for good on a difference:
// SQLite itself would go on acknowledging rows into an unlinked inode. It narrows the window to one transaction;
// nothing can close it.
func (f *File) checkIdentity() error {
	if err := f.halted(); err != nil {
		return err
	}
	if mutation.On("identity-is-not-checked") {
		return nil
	}
	if err := f.compare(); err != nil {
		return fmt.Errorf("check identity: %w", err)
	}
	return f.halted()
}

// compare sets the flags for what it finds, the main file before the sidecars.
func (f *File) compare() error {
	held := f.ident
	moved, err := differs(f.path, held.main)
	if err != nil {
		return err
	}
	if moved {
		f.halt(&f.replaced, Replaced, f.path)
	}
	for _, side := range [...]struct {
		path string
		node inode
	}{{f.walPath, held.wal}, {f.shmPath, held.shm}} {
		if side.node == (inode{}) {
			continue
		}
		moved, err := differs(side.path, side.node)
		if err != nil {
			return err
		}
		if moved {
			f.halt(&f.loss, LostWAL, side.path)
		}
	}
	return nil
}

func differs(path string, held inode) (bool, error) {
	now, err := statInode(path)
	return now != held, err
}

// headerAppID is where the header has the application_id: four bytes that say which file this is.
const headerAppID = 68

// checkContent notices another database that was written over the open one, as cp does: the inode is the same, the
// application_id is not. Zero on either side is no proof: the file has none, or the first page is still in the -wal
// only. It costs one small read through the connection's own descriptor.
func (f *File) checkContent(c *Conn) error {
	if f.marks == (marks{}) || c == nil || c.main == nil {
		return nil
	}
	if now := readAppID(unwrap(c.main)); now != 0 && now != f.marks.seen && now != f.marks.raw {
		f.halt(&f.replaced, Overwritten, f.path)
	}
	return f.halted()
}

func readAppID(main io.ReaderAt) uint32 {
	var b [4]byte
	if _, err := main.ReadAt(b[:], headerAppID); err != nil {
		return 0
	}
	return binary.BigEndian.Uint32(b[:])
}

// marks is the application_id at open: as the database has it, and as the main file has it, which is older while the
// first page waits in the -wal. A checkpoint turns the second into the first.
type marks struct{ seen, raw uint32 }

// noteAppID takes them down.
func (f *File) noteAppID(c *Conn) error {
	text, err := c.pragma("application_id")
	if err != nil {
		return fmt.Errorf("read application_id: %w", err)
	}
	id, err := strconv.ParseInt(text, 10, 32)
	if err != nil || c.main == nil {
		return err
	}
	f.marks = marks{seen: uint32(id), raw: readAppID(unwrap(c.main))}
	return nil
}

// halt makes a finding stick: a File that was replaced or lost its WAL never writes again.
func (f *File) halt(flag *atomic.Pointer[halt], class Class, path string) {
	err := f.explain(classify(class, "%s is not the file that is open", path),
		"nothing more is written through this handle; what was acknowledged before is kept beside it until somebody salvages it")
	if flag.CompareAndSwap(nil, &halt{class: class, file: path, err: err}) {
		f.log.Warn("database is not what was opened any more", "path", f.path, "reason", string(class), "file", path)
	}
}
