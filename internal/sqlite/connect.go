package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"
	"github.com/ncruces/go-sqlite3/vfs"
)

// dial opens a connection and makes it safe: no checkpoint at close, a busy timeout. It does not touch the file
// yet.
func (f *File) dial() (*Conn, error) {
	name, err := walName(f.path)
	if err != nil {
		return nil, fmt.Errorf("open connection: %w", err)
	}
	db, err := sqlite3.OpenFlags(name, sqlite3.OPEN_READWRITE|sqlite3.OPEN_URI)
	if err != nil {
		return nil, fmt.Errorf("open connection: %w", err)
	}
	c := &Conn{db: db, stmts: map[string]*stmt{}, own: map[string]*stmt{}}
	if err := errors.Join(c.prepareSafety(), db.ConfigLog(f.heard)); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// heard passes on what SQLite logs about damage and the disk: it names the page or the line, the error does not. The
// same words are passed on once: a whole audit of a damaged file would say them for each row that it meets.
func (f *File) heard(code sqlite3.ExtendedErrorCode, text string) {
	switch code.Code() {
	case sqlite3.CORRUPT, sqlite3.NOTADB, sqlite3.IOERR:
		if _, said := f.said.LoadOrStore(text, true); said {
			return
		}
		f.log.Warn("SQLite reports trouble", "path", f.path, "code", int(code), "text", text)
	}
}

func (c *Conn) prepareSafety() error {
	on, err := c.db.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true)
	if err != nil || !on {
		return fmt.Errorf("forbid checkpoint at close: on=%t: %w", on, err)
	}
	if err := c.db.BusyTimeout(busyTimeout); err != nil {
		return fmt.Errorf("set busy timeout: %w", err)
	}
	return nil
}

// connect opens one more connection to a File whose journal is decided already.
func (f *File) connect(r role) (*Conn, error) {
	if f.lost.tooMany() {
		return nil, classify(IO, "too many connections were lost to memory faults; restart the program")
	}
	c, err := f.dial()
	if err != nil {
		return nil, err
	}
	if err := guard(func() error { return f.settle(c, r) }); err != nil {
		f.drop(c)
		return nil, err
	}
	return c, nil
}

// settle applies the settings, verifies the journal and finds the descriptors. FTS5 comes here and not in dial,
// because registering it reads the schema, and the journal mode must be probed before anything else is asked.
func (f *File) settle(c *Conn, r role) error {
	if r == roleWatcher { // from its first look at the file on
		if err := c.db.BusyTimeout(0); err != nil {
			return fmt.Errorf("set busy timeout: %w", err)
		}
	}
	if err := fts5.Register(c.db); err != nil {
		return fmt.Errorf("register fts5: %w", err)
	}
	if err := c.apply(f.settings(r)); err != nil {
		return err
	}
	if !f.journal.assumed {
		mode, err := c.pragma("journal_mode")
		if err != nil {
			return fmt.Errorf("probe journal mode: %w", err)
		}
		if (mode == "wal") != (f.journal.Mode == "wal") {
			return fmt.Errorf("probe journal mode: %q where %q was decided", mode, f.journal.Mode)
		}
	}
	if r == roleWriter && f.opts.AutoCheckpoint == 0 && f.journal.Mode == "wal" {
		c.db.WALHook(f.writer.walGrew)
	}
	if err := c.locate(f.journal.Mode == "wal"); err != nil {
		return err
	}
	f.opts.seams.opened(c, r)
	return nil
}

// locate takes the descriptors from the library, on the goroutine that owns the connection. One read makes
// SQLite take its SHARED lock and open the sidecars, which is what keeps peers from deleting them.
func (c *Conn) locate(wal bool) error {
	if _, err := c.pragma("schema_version"); err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	main, err := c.db.FileControl("main", sqlite3.FCNTL_FILE_POINTER)
	if err != nil {
		return fmt.Errorf("find descriptor: %w", err)
	}
	c.main, _ = main.(vfs.File)
	if !wal {
		return nil
	}
	if journal, err := c.db.FileControl("main", sqlite3.FCNTL_JOURNAL_POINTER); err == nil {
		c.wal, _ = journal.(vfs.File)
	}
	if s, ok := c.main.(vfs.FileSharedMemory); ok && c.wal != nil {
		c.shm = s.SharedMemory()
	}
	return nil
}

func unwrap(file vfs.File) vfs.File {
	if w, ok := file.(vfs.FileUnwrap); ok {
		return w.Unwrap()
	}
	return file
}

// drop closes a connection that was never in use, and buries it if even that faults.
func (f *File) drop(c *Conn) {
	if err := guard(c.close); err != nil {
		f.bury(c, err)
	}
}

// liveDisk is the disk of the journal decision, on the connection that is being opened.
type liveDisk struct {
	ctx  context.Context
	conn *Conn
	file *File
}

func (d liveDisk) probe() (string, error) { return d.conn.pragma("journal_mode") }

func (d liveDisk) set(mode string) (string, error) {
	if mode == "delete" { // leaving or refusing WAL never waits for others
		d.conn.db.BusyTimeout(0)
		defer d.conn.db.BusyTimeout(busyTimeout)
	}
	return d.conn.pragma("journal_mode=" + mode)
}

func (d liveDisk) header() byte {
	main, err := d.conn.db.FileControl("main", sqlite3.FCNTL_FILE_POINTER)
	file, ok := main.(vfs.File)
	if err != nil || !ok {
		return headerUnreadable
	}
	head, err := readHeader(file)
	if errors.Is(err, io.EOF) && len(head) == 0 {
		return 0
	}
	if len(head) < headerSize || head[headerWriteVer] != head[headerReadVer] {
		return headerUnreadable
	}
	return head[headerWriteVer]
}

// readHeader reads the first bytes of the main file as they are on disk, which may be older than the -wal.
func readHeader(file io.ReaderAt) ([]byte, error) {
	head := make([]byte, headerSize)
	n, err := file.ReadAt(head, 0)
	if n == headerSize {
		err = nil
	}
	return head[:n], err
}

func (d liveDisk) fstype() string {
	return d.file.opts.seams.mount(d.file.dir())
}

func (d liveDisk) wait(pause time.Duration) error { return sleep(d.ctx, pause) }

// sleep waits, but never past the context.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return classify(Interrupted, "wait: %w", context.Cause(ctx))
	}
}
