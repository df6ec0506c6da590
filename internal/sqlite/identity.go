package sqlite

import "fmt"

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
	held := f.ident
	if moved, err := differs(f.path, held.main); err != nil {
		return fmt.Errorf("check identity: %w", err)
	} else if moved {
		return f.halt(Replaced, f.path)
	}
	for _, side := range [...]struct {
		path string
		node inode
	}{{f.walPath, held.wal}, {f.shmPath, held.shm}} {
		if side.node == (inode{}) {
			continue
		}
		if moved, err := differs(side.path, side.node); err != nil {
			return fmt.Errorf("check identity: %w", err)
		} else if moved {
			return f.halt(LostWAL, side.path)
		}
	}
	return nil
}

func differs(path string, held inode) (bool, error) {
	now, err := statInode(path)
	return now != held, err
}

// halt makes the first finding stick: a File that was replaced or lost its WAL never writes again.
func (f *File) halt(class Class, path string) error {
	err := f.explain(classify(class, "%s is not the file that is open", path),
		"nothing more is written through this handle; what was acknowledged before stays in the file that was open")
	if f.stuck.CompareAndSwap(nil, &halt{class: class, err: err}) {
		f.log.Error("database halted", "path", f.path, "reason", string(class), "file", path)
	}
	return f.halted()
}

// halt is a sticky reason not to write.
type halt struct {
	class Class
	err   error
}

func (f *File) halted() error {
	if h := f.stuck.Load(); h != nil {
		return h.err
	}
	return nil
}

// Quarantine says why this handle must not write or checkpoint any more; nil is healthy. Damage goes before
// replacement, replacement before a lost WAL.
func (f *File) Quarantine() error {
	if h := f.damage.Load(); h != nil {
		return h.err
	}
	return f.halted()
}

// Replaced reports whether the file was replaced on disk or its WAL lost, so that the handle should be retired.
// It reads a flag and costs nothing; the flag is set by the check before each transaction and by Stamp.
func (f *File) Replaced() bool { return f.stuck.Load() != nil }
