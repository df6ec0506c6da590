package sqlite

import (
	"context"
	"errors"
	"net/url"
	"os"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/problem"
)

// lookFirst asks Options.Stale through a connection that cannot change anything, where asking in the usual way would:
// SQLite makes a -wal and a -shm beside a database in WAL that lies alone. Only a refusal counts. The look takes no
// lock, so everything else it finds is asked again by the connection that does.
func (f *File) lookFirst(ctx context.Context) error {
	if f.opts.Stale == nil || !liesAlone(f.walPath) {
		return nil
	}
	name := "file:" + (&url.URL{Path: f.path}).EscapedPath() + "?immutable=1"
	db, err := sqlite3.OpenFlags(name, sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
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

// liesAlone: all that a database in WAL holds is in its main file.
func liesAlone(wal string) bool {
	info, err := os.Stat(wal)
	return errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0
}
