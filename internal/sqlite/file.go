package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/procfs"
)

// Patience by what is written: how long a write waits for a lock that another process holds, outside of any
// transaction.
const (
	Transcript = 60 * time.Second       // what was said, and board rows: losing one is losing a user's data
	Ordinary   = 20 * time.Second       // everything else
	Activity   = 500 * time.Millisecond // last-seen stamps, which may be dropped
)

// Options say what is opened and how.
type Options struct {
	Path  string
	Label string // for logs and people: "state.db", "board default"

	Create  bool   // false: a missing file is an error and nothing is created
	Backups string // directory in which backups of it are kept; "" = none but beside it
	Journal JournalConfig

	// AutoCheckpoint is SQLite's own checkpoint in pages, run inside the COMMIT that passes it. 0 lets the writer
	// checkpoint after it has answered.
	AutoCheckpoint   int
	SecureDelete     bool
	CellSizeCheck    bool
	JournalSizeLimit int64 // bytes the -wal is cut to when it restarts; 0 leaves it alone
	WriterCache      int64 // KiB of pages that the writer keeps while it is open, which is for long; 0 is 2000

	// Patience of writes that name none; 0 is Ordinary, negative tries once.
	Patience time.Duration

	// Stale asks whether the schema needs work, by reads alone and in one read transaction. It refuses a file that is
	// not ours with an error; until it has answered, nothing of the file is changed. It may be asked several times. An error
	// made by AsReadOnly opens the file for reading alone.
	Stale   func(*Conn) (bool, error)
	Prepare func(context.Context) // once Stale said yes, before the work and outside of any transaction: may wait
	Migrate func(*Tx) error       // brings the schema up to date, in one immediate transaction
	Before  BackupOptions         // a copy is kept there before that, for the way back to an older program; no Dir is none

	// TornCheck compares the file's length with its header after each commit.
	TornCheck bool

	Log *slog.Logger

	seams seams
}

// seams are the points where a disk can fail and a test makes it.
type seams struct {
	mount      func(dir string) string // file system type
	full       func(dir string) bool   // no space left
	readOnly   func(dir string) bool   // the whole file system
	fileSize   func(size func() (int64, error)) (int64, error)
	disk       func(disk) disk                 // the journal decision's view
	begin      func(begin func() error) error  // around BEGIN IMMEDIATE
	commit     func(commit func() error) error // around COMMIT
	checkpoint func(sqlite3.CheckpointMode)    // before a checkpoint
	opened     func(*Conn, role)               // after a connection was settled
	guards     func() bool                     // off, for the figure of what they cost
	free       func(dir string) (int64, error) // bytes left for a capture
	captured   func(staged string) error       // before a capture gets its name
}

func (s *seams) fill() {
	if s.mount == nil {
		s.mount = func(dir string) string {
			m, _ := procfs.MountOf(dir) // a table that cannot be read says nothing against WAL
			return m.FSType
		}
	}
	if s.full == nil {
		s.full = diskFull
	}
	if s.readOnly == nil {
		s.readOnly = diskReadOnly
	}
	if s.fileSize == nil {
		s.fileSize = func(size func() (int64, error)) (int64, error) { return size() }
	}
	if s.disk == nil {
		s.disk = func(d disk) disk { return d }
	}
	if s.begin == nil {
		s.begin = func(begin func() error) error { return begin() }
	}
	if s.commit == nil {
		s.commit = func(commit func() error) error { return commit() }
	}
	if s.checkpoint == nil {
		s.checkpoint = func(sqlite3.CheckpointMode) {}
	}
	if s.guards == nil {
		s.guards = func() bool { return true }
	}
	if s.opened == nil {
		s.opened = func(*Conn, role) {}
	}
	if s.free == nil {
		s.free = freeBytes
	}
	if s.captured == nil {
		s.captured = func(string) error { return nil }
	}
}

// File is one open database. It is safe for concurrent use.
type File struct {
	opts    Options
	path    string
	walPath string
	shmPath string
	log     *slog.Logger
	journal Journal
	ident   identity
	page    int64 // page size in bytes

	writer  *writer
	readers *readers // nil where reads go through the writer
	watch   watch

	library  string               // SQLite's version
	marks    marks                // application_id, 0 where the file has none
	replaced atomic.Pointer[halt] // another main file, or other content in it
	loss     atomic.Pointer[halt] // another -wal or -shm
	damage   *latch               // structural corruption, of the path
	said     sync.Map             // texts of SQLite that were logged
	lost     losses
	rescue   rescue
	readOnly *halt // set while opening: nothing is ever written

	closing sync.Mutex // one Close at a time; a failed one can be tried again
	closed  bool
}

// Path gives the resolved path.
func (f *File) Path() string { return f.path }

// Journal says which journal mode the database is in and why.
func (f *File) Journal() Journal { return f.journal }

// DropIdle closes the readers that nobody uses.
func (f *File) DropIdle() {
	if f.readers != nil {
		f.readers.dropIdle(0)
	}
}

// Write runs an operation in a transaction and returns nil only when it is durable. It waits for its place among
// other writes and for locks of other processes within the operation's patience, and never past ctx while the
// operation has not begun; once it has begun, the answer is waited for. An error means that nothing of it was
// stored, unless IsCommitted says otherwise or the message says that its fate is unknown.
func (f *File) Write(ctx context.Context, op Op) error {
	if err := f.halted(); err != nil {
		return err // at once, while the writer may be at work on a capture
	}
	return f.writer.submit(ctx, &request{op: op, deadline: f.deadline(ctx, op.Patience)})
}

// Waiting gives the number of requests that wait for the writer. Background work asks it to know when to step
// aside.
func (f *File) Waiting() int { return len(f.writer.queue) }

// Read runs fn in one read transaction: everything it reads is of one moment. It may be run again from the start
// when the disk fails before the first row was handed out. fn must not call Read or Write of the same File.
func (f *File) Read(ctx context.Context, fn func(*Conn) error) error {
	if f.readers == nil {
		return f.readOnWriter(ctx, fn)
	}
	err := f.readers.read(ctx, fn)
	if errors.Is(err, errNoReader) {
		return f.readOnWriter(ctx, fn)
	}
	return f.beyond(err)
}

// Peek is Read on the writer's connection, in its turn among the writes. It is for short reads of files that mostly
// rest: a reader of its own would cost such a file a second connection, a third of a megabyte and three descriptors.
// A long fn holds up every write. fn must not call Read, Peek or Write of the same File.
func (f *File) Peek(ctx context.Context, fn func(*Conn) error) error {
	return f.readOnWriter(ctx, fn)
}

func (f *File) readOnWriter(ctx context.Context, fn func(*Conn) error) error {
	err := f.writer.submit(ctx, &request{
		op: Op{Label: "read"},
		visit: func(c *Conn) error {
			if err := f.mayReadByName(); err != nil {
				return err
			}
			return c.inRead(ctx, fn)
		},
		deadline: f.deadline(ctx, 0),
	})
	return f.beyond(causeOf(ctx, err))
}

// causeOf says why a read was interrupted, where SQLite only says that it was.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil && ClassOf(err) == Interrupted {
		return classify(Interrupted, "read: %w", context.Cause(ctx))
	}
	return err
}

func (f *File) deadline(ctx context.Context, patience time.Duration) time.Time {
	if patience == 0 {
		patience = f.opts.Patience
	}
	if patience == 0 {
		patience = Ordinary
	}
	at := time.Now().Add(max(patience, 0))
	if limit, ok := ctx.Deadline(); ok && limit.Before(at) {
		return limit
	}
	return at
}

// Close waits for the reads and writes that were accepted, checkpoints a healthy database without waiting for
// anybody, and closes the connections: readers first, because one that stays open pins the WAL. A handle that was
// replaced or lost its WAL is captured first. An error means that something is still open, a capture that could not be
// made included; Close can be called again.
func (f *File) Close() error {
	f.closing.Lock()
	defer f.closing.Unlock()
	if f.closed {
		return nil
	}
	if f.readers != nil {
		if err := f.readers.close(); err != nil {
			return fmt.Errorf("close %s: %w", f.thing(), err)
		}
	}
	f.watch.close(f)
	if err := f.writer.close(); err != nil {
		return fmt.Errorf("close %s: %w", f.thing(), err)
	}
	f.closed = true
	own.remove(f)
	f.dropForeignWAL()
	return nil
}
