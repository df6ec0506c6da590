package sessiondb

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"gatewayd/internal/sqlite"
)

// Options says which file and how. The zero value of everything but Path works.
type Options struct {
	Path     string
	Existing bool   // a missing file is a NotFound problem instead of a new store
	Backups  string // directory of backups: one of this store says that an empty file is a loss, and one is made before an upgrade
	Journal  sqlite.JournalConfig
	Log      *slog.Logger // nil: nothing is logged

	// Heal brings back, before the store is handed out, the rows that were said while it could not take them: those in the
	// captured log of a generation that this very file lost, and those in the spool. For the one process that owns the
	// conversations; a verb that reads leaves both alone.
	Heal bool

	SpoolBytes int64 // bound of the spool; 0 is DefaultSpoolBytes
	KeepBytes  int64 // of transcripts in memory; 0 is DefaultKeepBytes, negative keeps none

	known int64 // newest schema, for a test that plays an older program; 0 is SchemaVersion
}

// Store is one open state.db.
type Store struct {
	file  *sqlite.File
	log   *slog.Logger
	once  onceLog
	swept atomic.Int64 // when leases of nobody were looked for, in µs since 1970
	turns broadcast    // told when a lease of this process ends, so that a waiter here does not sleep out its poll
	work  indexWork
	tail  tailIndex
	kept  kept
	edits atomic.Int64 // counts changes to the text of existing rows; the tail index is rebuilt after one

	onceKept atomic.Int64 // bytes of remembered answers, since ExpireOnce last measured them
	bounds   onceBounds   // of what is remembered of requests

	pace func(rows int, took time.Duration) int // of a deletion in steps: paceByTime, but for a test that counts statements

	readOnly error // the file is of a newer program: why nothing is written
	spool    *Spool
	replays  atomic.Int64 // of the spool, under way or waiting for their turn
	seen     seenSessions // what is known of sessions, for rows that have to be spooled
}

// Open opens the file at Path, or creates it unless told that it must exist. It refuses, and leaves as it is, a file that
// is not ours; one that is newer than we are is only read (ReadOnly), and every write of it is an ErrReadOnly. On a current
// file it writes nothing but what Heal brings back. Errors are *problem.Error.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{log: o.Log, once: onceLog{log: o.Log}, pace: paceByTime, bounds: onceBounds{onceMost, onceBytes}}
	s.work.init()
	if s.kept.limit = o.KeepBytes; s.kept.limit == 0 {
		s.kept.limit = DefaultKeepBytes
	}
	known := cmp.Or(o.known, SchemaVersion)
	file, err := sqlite.Open(ctx, sqlite.Options{
		Path: o.Path, Label: "state.db", Create: !o.Existing, Backups: o.Backups, Journal: o.Journal, Log: o.Log, Patience: sqlite.Ordinary,
		Stale:   func(c *sqlite.Conn) (bool, error) { return stale(c, o.Path, known) },
		Migrate: func(tx *sqlite.Tx) error { return migrate(tx, known) },
		Before:  BackupOptions(o.Backups, 0),
	})
	if err != nil {
		return nil, err
	}
	s.file, s.readOnly = file, file.ReadOnly()
	if s.readOnly != nil {
		s.log.Warn("store is only read", "path", file.Path(), "error", s.readOnly)
	}
	s.spool = SpoolOf(file.Path())
	if o.SpoolBytes > 0 {
		s.spool.limit = o.SpoolBytes
	}
	if o.Heal {
		s.heal(ctx)
	}
	return s, nil
}

// File is the file behind the store, for health checks and checkpoints.
func (s *Store) File() *sqlite.File { return s.file }

// Replaced reports that another file stands at the path; the registry then retires this store.
func (s *Store) Replaced() bool { return s.file.Replaced() }

// Lost reports whether the store's -wal or -shm is not the one on disk any more.
func (s *Store) Lost() bool { return s.file.Lost() }

// DropIdle closes readers that nobody uses, and lets go the rows of conversations that rest.
func (s *Store) DropIdle() {
	s.kept.drop(time.Now().Add(-keepIdle))
	s.tail.drop()
	s.file.DropIdle()
}

// Close ends the store. Calls after it fail; RunIndexer should have returned before.
func (s *Store) Close() error {
	s.tail.drop()
	return s.file.Close()
}
