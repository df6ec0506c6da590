package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"

	"gatewayd/internal/problem"
)

// BorrowOptions say which database of another program is read.
type BorrowOptions struct {
	Path    string
	Label   string // for people: "Hermes state.db"
	Scratch string // directory for the private copy, which is as large as the database and its -wal
}

// Borrowed is a database of another program, read from a private copy. It is safe for concurrent use, one Read at a time.
type Borrowed struct {
	thing string
	dir   string
	held  *os.File // the directory, locked: who finds it unlocked may remove it
	mu    sync.Mutex
	conn  *Conn
}

const (
	borrowPatience = 60 * time.Second // for a database that changes again and again while it is copied
	borrowedName   = "copy.db"
	borrowedDir    = "borrowed-"
)

// errMoved: what was copied is not of one moment.
var errMoved = errors.New("it changed while it was copied")

// Borrow copies a database with its -wal, or its hot journal, and opens the copy.
//
// A copy, because the library cannot read a database in WAL without writing beside it: it makes a -wal and a -shm where
// there are none, recovers what a crash left into the -shm, and refuses where it may not. The original's three files are
// opened for reading only, none is made, and nobody who uses them is kept waiting in WAL: two shared locks, as every
// reader holds them, keep the -wal from starting anew under the copy. The main file is copied before the -wal: whatever a
// checkpoint writes into it meanwhile is in the -wal too. A copy that is not of one moment all the same is made again.
func Borrow(ctx context.Context, o BorrowOptions) (*Borrowed, error) {
	b := &Borrowed{thing: thingOf(o.Label, o.Path)}
	path, err := filepath.EvalSymlinks(o.Path)
	if err != nil {
		return nil, b.refuse(err)
	}
	sweepBorrowed(o.Scratch)
	if b.dir, err = os.MkdirTemp(o.Scratch, borrowedDir); err != nil {
		return nil, b.explainScratch(o.Scratch, err)
	}
	if b.held, err = os.Open(b.dir); err == nil {
		tryHold(b.held)
	}
	err = b.fetch(ctx, path)
	if err == nil {
		err = b.open()
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// fetch makes the copy, as often as it takes to get one that is of one moment.
func (b *Borrowed) fetch(ctx context.Context, path string) error {
	deadline := time.Now().Add(borrowPatience)
	for wait := newBackoff(); ; {
		err := b.fetchOnce(ctx, path)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errMoved) && wait.pause(ctx, deadline):
			continue
		case ctx.Err() != nil:
			return classify(Interrupted, "copy database: %w", context.Cause(ctx))
		case errors.Is(err, errMoved):
			return &problem.Error{
				Kind: problem.Busy, Thing: b.thing, What: fmt.Sprintf("changed each time it was copied, for %s", borrowPatience),
				Fate: "nothing was read from it", Remedy: "try again when the program that writes it is less busy", Err: err,
			}
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), isScratch(err, b.dir):
			return b.explainScratch(b.dir, err)
		}
		return b.refuse(err)
	}
}

func (b *Borrowed) fetchOnce(ctx context.Context, path string) error {
	main, err := openRegular(path)
	if err != nil {
		return err
	}
	defer main.Close()
	if err := b.checkHeader(main); err != nil {
		return err
	}
	unlock := lockAsReader(main, path+"-shm")
	defer unlock()
	before, err := takeMoment(path)
	if err != nil {
		return err
	}
	for _, suffix := range []string{"", "-wal", "-journal"} { // in this order, see Borrow
		if err := b.copySide(ctx, path, suffix); err != nil {
			return err
		}
	}
	after, err := takeMoment(path)
	if err == nil && after != before {
		err = errMoved
	}
	return err
}

// checkHeader says plainly what no copying would change.
func (b *Borrowed) checkHeader(main *os.File) error {
	head, err := readHeader(main)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(head) == 0 {
		return &problem.Error{Kind: problem.Damaged, Thing: b.thing, What: "is empty", Fate: "nothing was read from it", Remedy: "name the one that holds the data"}
	}
	if len(head) < headerSize || !strings.HasPrefix(string(head), magic) {
		return &problem.Error{
			Kind: problem.Damaged, Thing: b.thing, What: "is not a SQLite database" + tlsHint(head), Fate: "nothing was read from it",
			Remedy: "name the right file, or put a good copy in its place",
		}
	}
	return nil
}

func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a FIFO would wait for ever
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is no regular file (%s)", info.Mode().Type())}
	}
	return os.Open(path)
}

// copySide copies one of the files; one that is not there is none in the copy either.
func (b *Borrowed) copySide(ctx context.Context, path, suffix string) error {
	to := filepath.Join(b.dir, borrowedName+suffix)
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	src, err := openRegular(path + suffix)
	if errors.Is(err, fs.ErrNotExist) && suffix != "" {
		return nil
	}
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(copyUntil(ctx, dst, src), dst.Close())
}

// copyUntil copies in pieces, so that a large file can be interrupted and the kernel may still share the blocks.
func copyUntil(ctx context.Context, dst *os.File, src *os.File) error {
	for {
		n, err := io.CopyN(dst, src, 16<<20)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil || n == 0 {
			return ctx.Err()
		}
	}
}

// moment is what must be the same before and after copying: which files there are, the header of the -wal (its salts change
// when it starts anew), and, where no -wal covers the main file, that this did not change.
type moment struct {
	wal, journal sideMoment
	main         sideMoment
}

type sideMoment struct {
	ino         uint64
	head        string
	size, mtime int64
}

func takeMoment(path string) (moment, error) {
	wal, err := sideOf(path+"-wal", 32, false)
	if err != nil {
		return moment{}, err
	}
	journal, err := sideOf(path+"-journal", 28, false)
	if err != nil {
		return moment{}, err
	}
	main, err := sideOf(path, headerSize, wal.head == "")
	if wal.head != "" {
		main.head = "" // a checkpoint may change it at any time
	}
	return moment{wal: wal, journal: journal, main: main}, err
}

func sideOf(path string, head int, times bool) (sideMoment, error) {
	file, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return sideMoment{}, nil
	}
	if err != nil {
		return sideMoment{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return sideMoment{}, err
	}
	bytes := make([]byte, head)
	n, err := file.ReadAt(bytes, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return sideMoment{}, err
	}
	side := sideMoment{head: string(bytes[:n])}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		side.ino = st.Ino
	}
	if times {
		side.size, side.mtime = info.Size(), info.ModTime().UnixNano()
	}
	return side, nil
}

// open opens the copy, which replays what its -wal or its journal holds. FTS5 is there because a view may name it; a
// module that is missing matters only to who asks its tables.
func (b *Borrowed) open() error {
	return b.explain(guard(func() error {
		db, err := sqlite3.OpenFlags(filepath.Join(b.dir, borrowedName), sqlite3.OPEN_READWRITE)
		if err != nil {
			return err
		}
		b.conn = &Conn{db: db, stmts: map[string]*stmt{}, own: map[string]*stmt{}}
		for _, pragma := range []string{"trusted_schema=0", "synchronous=0", "mmap_size=0", "query_only=1"} {
			if _, err := b.conn.pragma(pragma); err != nil {
				return err
			}
		}
		if _, err := b.conn.pragma("schema_version"); err != nil { // the first look at the file
			return err
		}
		return fts5.Register(db)
	}))
}

// Read runs fn in one read transaction on the copy. fn must not call Read.
func (b *Borrowed) Read(ctx context.Context, fn func(*Conn) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn == nil {
		return errClosed
	}
	err := guard(func() error { return b.conn.inRead(ctx, fn) })
	return b.explain(causeOf(ctx, err))
}

// Close ends the connection and removes the copy. Closing twice is no error.
func (b *Borrowed) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if c := b.conn; c != nil {
		b.conn = nil
		err = guard(c.close)
	}
	if b.dir == "" {
		return err
	}
	err = errors.Join(err, os.RemoveAll(b.dir))
	b.held.Close()
	return err
}

// sweepBorrowed removes copies whose process was killed: they are as large as a database.
func sweepBorrowed(scratch string) {
	left, err := filepath.Glob(filepath.Join(scratch, borrowedDir+"*"))
	if err != nil || scratch == "" {
		return
	}
	for _, dir := range left {
		held, err := os.Open(dir)
		if err != nil {
			continue
		}
		if tryHold(held) {
			os.RemoveAll(dir)
		}
		held.Close()
	}
}

func (b *Borrowed) explain(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*problem.Error](err); ok {
		return err
	}
	switch ClassOf(err) {
	case Corrupt, NotADatabase:
		return &problem.Error{
			Kind: problem.Damaged, Thing: b.thing, What: "is damaged", Fate: "it was left as it is", Err: err,
			Remedy: "repair a copy of it (sqlite3 COPY .recover | sqlite3 NEW) and name that one",
		}
	case IO, NoSpace:
		return b.explainScratch(b.dir, err)
	}
	return err
}

func (b *Borrowed) refuse(err error) error {
	if _, ok := errors.AsType[*problem.Error](err); ok {
		return err
	}
	p := &problem.Error{Kind: problem.Unavailable, Thing: b.thing, What: "cannot be read", Fate: "it was left as it is", Remedy: "check the path", Err: err}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.Kind, p.What, p.Err = problem.NotFound, "does not exist", nil
	case errors.Is(err, fs.ErrPermission):
		p.Kind, p.Remedy = problem.Denied, "check owner and permissions of it and its -wal"
	}
	return p
}

func (b *Borrowed) explainScratch(dir string, err error) error {
	kind := problem.Unavailable
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		kind = problem.Full
	}
	return &problem.Error{
		Kind: kind, Thing: b.thing, What: "cannot be copied to " + dir, Fate: "it was left as it is",
		Remedy: "the copy needs as much space as the database and its -wal; free some, or name another directory", Err: err,
	}
}

func isScratch(err error, dir string) bool {
	var at *fs.PathError
	return errors.As(err, &at) && dir != "" && strings.HasPrefix(at.Path, dir)
}
