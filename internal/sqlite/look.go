package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/mutation"
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

// lookAtCopy lets SQLite play the journal back into a copy, which lies beside the database and is gone afterwards; what a killed process left of
// one is removed by the next that looks. Where none can be made that is said, and the file is asked itself.
func (f *File) lookAtCopy(ctx context.Context, journal string) error {
	sweepBorrowed(f.dir())
	whole, remove, err := f.copyToLookAt(journal)
	defer remove()
	if err != nil {
		f.log.Warn("database is opened without a look at a copy of it first: none can be made", "path", f.path, "error", err)
		return nil
	}
	return f.lookThrough(ctx, whole, sqlite3.OPEN_READWRITE)
}

// copyToLookAt copies a database with its journal, unless they would fill the disk.
func (f *File) copyToLookAt(journal string) (whole string, remove func(), err error) {
	needs := bytesAt(f.path) + bytesAt(journal) + spaceLeft
	if free, ferr := f.opts.seams.free(f.dir()); ferr == nil && free < needs && !mutation.On("look-fills-the-disk") {
		return "", func() {}, fmt.Errorf("it needs %d MiB, and %d MiB are free: %w", needs>>20, free>>20, syscall.ENOSPC)
	}
	dir, err := os.MkdirTemp(f.dir(), borrowedDir)
	if err != nil {
		return "", func() {}, err
	}
	held, err := os.Open(dir)
	remove = func() { _ = errors.Join(os.RemoveAll(dir), held.Close()) }
	if err != nil {
		return "", remove, err
	}
	tryHold(held)
	whole = filepath.Join(dir, borrowedName)
	return whole, remove, errors.Join(copyFile(f.path, whole), copyFile(journal, whole+"-journal"))
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
