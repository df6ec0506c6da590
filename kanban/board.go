package kanban

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// Options says how to open a board.
type Options struct {
	Path     string               // kanban.db
	Slug     Slug                 // for messages and logs
	Create   bool                 // make the file if it is missing or empty; otherwise that is a NotFound problem
	Backups  string               // directory of backups: one of this board says that an empty file is a loss, and one is made before an upgrade
	Journal  sqlite.JournalConfig // how the journal mode is decided; the zero value is the usual rule
	Patience time.Duration        // how long a write waits for another process; 0 = DefaultPatience
	Log      *slog.Logger         // nil = nothing is logged

	// Attachments and Workspaces are where the files of cards lie; "" is where Hermes has them beside this file.
	Attachments, Workspaces string

	// AutoSubscribe has the chat session that creates a card told of it.
	AutoSubscribe bool

	// Heal writes back, before the file is opened, what it lost with its -wal, where nobody has written it since. For the
	// process that serves the board.
	Heal bool

	// Whole is the directory where Heal notes which boards it found whole, so that the same content is not checked at each
	// start; "" = nothing is noted, each open checks.
	Whole string

	// TerminalTimeout is told to workers; 0 = nothing is said of it.
	TerminalTimeout time.Duration
}

const (
	// DefaultPatience is what a board write waits for its turn. Several workers and older Hermes processes write the
	// same file, and a worker that gives up loses its verdict.
	DefaultPatience = 60 * time.Second
	// autoCheckpoint keeps the -wal small, because Hermes processes of any age open and close the file all the time and
	// each open reads the whole of it.
	autoCheckpoint = 100
	// writerCache is small, because a board stays open for months, and a hundred of them do: what the kernel has of its file is a copy away.
	writerCache = 256 // KiB
	// journalSizeLimit is what the -wal shrinks to after it once grew.
	journalSizeLimit = 8 << 20
)

// Board is one open board file.
type Board struct {
	slug     Slug
	path     string
	patience time.Duration
	log      *slog.Logger
	file     *sqlite.File
	tells    bool   // the session that creates a card is subscribed to it
	fence    *Fence // whose writes these are; nil = a person's or the dispatcher's
	redacts  bool   // secrets are taken out of what is written
	secrets  []string

	attachments, workspaces string
	terminal                time.Duration // what a command of a worker's terminal has
}

// Open opens a board and brings its format up to date. A file that is missing, empty, foreign, cut short or damaged is
// refused and left as it is. Opening a board that is current writes nothing. It blocks for the schema work and, at most
// initLockWait, for another process that does it.
func Open(ctx context.Context, opts Options) (*Board, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Patience == 0 {
		opts.Patience = DefaultPatience
	}
	if opts.Slug == "" {
		opts.Slug = DefaultSlug
	}
	b := &Board{slug: opts.Slug, path: opts.Path, patience: opts.Patience, tells: opts.AutoSubscribe, terminal: opts.TerminalTimeout, log: opts.Log.With("board", string(opts.Slug))}
	b.attachments, b.workspaces = cmp.Or(opts.Attachments, beside(opts, "attachments")), cmp.Or(opts.Workspaces, beside(opts, "workspaces"))
	opts.Create = opts.Create || mutation.On("a-read-creates-a-board")
	if err := tornAtRest(opts.Path); err != nil {
		return nil, corruptBoard(opts.Slug, opts.Path, err)
	}
	init := initLock{path: opts.Path, log: b.log}
	defer init.release()
	if needsInit(opts) {
		_ = os.MkdirAll(filepath.Dir(opts.Path), 0o700) // the open says it better if this fails
		init.acquire(ctx)
	}
	note := noteOf(opts)
	err := b.reinstate(ctx, opts)
	if err != nil {
		return nil, err
	}
	if b.file, err = b.openMade(ctx, opts, &init); err != nil {
		return nil, b.explain(err)
	}
	if err := b.mend(ctx, opts, &init, note); err != nil {
		return nil, err
	}
	return b, nil
}

// openMade opens the file. A board has no tables yet while another process makes it: that one has the lock of first openers,
// and is waited for before anybody is told to move the file away.
func (b *Board) openMade(ctx context.Context, opts Options, init *initLock) (*sqlite.File, error) {
	file, err := sqlite.Open(ctx, b.fileOptions(opts, init))
	if errors.Is(err, errNoTables) && begun(opts.Path) && !mutation.On("unfinished-board-is-refused") {
		b.log.Debug("board has no tables yet, waiting for who makes it", "path", opts.Path)
		init.acquire(ctx)
		file, err = sqlite.Open(ctx, b.fileOptions(opts, init))
	}
	return file, err
}

// begun reports whether somebody ever opened the file to make a board of it.
func begun(path string) bool {
	_, err := os.Lstat(path + initLockSuffix)
	return err == nil
}

func (b *Board) fileOptions(opts Options, init *initLock) sqlite.Options {
	return sqlite.Options{
		Path: opts.Path, Label: "board " + string(opts.Slug), Create: opts.Create, Backups: opts.Backups, Journal: opts.Journal,
		AutoCheckpoint: autoCheckpoint, SecureDelete: true, CellSizeCheck: true, JournalSizeLimit: journalSizeLimit,
		Patience: opts.Patience, TornCheck: true, WriterCache: writerCache, Log: opts.Log,
		Stale:   func(c *sqlite.Conn) (bool, error) { return b.stale(c, opts.Create) },
		Prepare: init.acquire, // only where there is work does the process queue up with Hermes' own first openers
		Migrate: migrate,
		Before:  sqlite.BackupOptions{Dir: opts.Backups, Tables: counted},
	}
}

// beside is a directory of a board whose root is not named: the default board keeps its own in kanban/.
func beside(opts Options, name string) string {
	dir, err := filepath.Abs(filepath.Dir(opts.Path))
	if err != nil {
		return ""
	}
	if opts.Slug == DefaultSlug {
		dir = filepath.Join(dir, "kanban")
	}
	return filepath.Join(dir, name)
}

// stale asks whether the schema needs work, and refuses what is no board.
func (b *Board) stale(c *sqlite.Conn, create bool) (bool, error) {
	l, stale, err := schemaStale(c)
	switch {
	case err != nil:
		return false, err
	case l.foreign() != "":
		return false, foreignBoard(b.slug, b.path, l.foreign())
	case l.empty() && !create:
		return false, emptyBoard(b.slug, b.path)
	}
	return stale, nil
}

// Slug names the board.
func (b *Board) Slug() Slug { return b.slug }

// Path is the board's file.
func (b *Board) Path() string { return b.path }

// File is the open database, for health, stamps and checkpoints.
func (b *Board) File() *sqlite.File { return b.file }

// reinstate writes back what the board lost. Where that can be done later (somebody has the file open, the disk is full)
// the board is not opened either: its first write would leave those rows to a person. So it does not end with the wait
// of whoever happened to open the board.
func (b *Board) reinstate(ctx context.Context, opts Options) error {
	if !opts.Heal {
		return nil
	}
	err := sqlite.Reinstate(context.WithoutCancel(ctx), opts.Path, BoardLabel(opts.Slug), opts.Log)
	if problem.Is(err, problem.Busy) || problem.Is(err, problem.Full) {
		return err
	}
	if err != nil {
		b.log.Error("what a board lost is not in it", "path", opts.Path, "error", err)
	}
	return nil
}

// Close gives the file back. The -wal stays; that is normal.
func (b *Board) Close() error { return b.file.Close() }

// Replaced reports that another file lies at the path, so that this handle must be retired.
func (b *Board) Replaced() bool { return b.file.Replaced() }

// Lost reports whether the board's -wal or -shm is not the one on disk any more.
func (b *Board) Lost() bool { return b.file.Lost() }

// DropIdle closes what was only kept for speed.
func (b *Board) DropIdle() { b.file.DropIdle() }
