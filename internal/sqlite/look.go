package sqlite

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/problem"
)

// lookFirst asks Options.Stale in a way that cannot change the file, where asking in the usual way would: SQLite makes
// a -wal and a -shm beside a database in WAL that lies alone, and writes what a crashed program's journal holds back
// into a database in rollback mode. Only a refusal counts. The look takes no lock, so everything else it finds is
// asked again by the connection that does.
func (f *File) lookFirst(ctx context.Context, version byte) error {
	switch journal := f.path + "-journal"; {
	case f.opts.Stale == nil:
		return nil
	case version == 2 && !hasBytes(f.walPath): // all it holds is in the main file
		return f.lookThrough(ctx, "file:"+(&url.URL{Path: f.path}).EscapedPath()+"?immutable=1", sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
	case version == 1 && hasBytes(journal):
		return f.lookAtCopy(ctx, journal)
	}
	return nil
}

func (f *File) lookThrough(ctx context.Context, name string, flags sqlite3.OpenFlag) error {
	db, err := sqlite3.OpenFlags(name, flags)
	if err != nil {
		return nil
	}
	c := &Conn{db: db, stmts: map[string]*stmt{}, own: map[string]*stmt{}}
	defer f.drop(c)
	err = guard(func() error {
		return c.inRead(ctx, func(c *Conn) error { _, err := f.opts.Stale(c); return err })
	})
	if _, refused := errors.AsType[*problem.Error](err); refused {
		return err
	}
	return nil
}

// lookAtCopy lets SQLite play the journal back into a copy. Where no copy can be made the file is asked itself.
func (f *File) lookAtCopy(ctx context.Context, journal string) error {
	dir, err := os.MkdirTemp("", "look-")
	if err != nil {
		return nil
	}
	defer os.RemoveAll(dir)
	whole := filepath.Join(dir, "copy.db")
	if copyFile(f.path, whole) != nil || copyFile(journal, whole+"-journal") != nil {
		return nil
	}
	return f.lookThrough(ctx, whole, sqlite3.OPEN_READWRITE)
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

func hasBytes(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() > 0
}
