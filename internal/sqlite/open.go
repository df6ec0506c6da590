package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// Open opens a database, or creates it where Options.Create says so and nothing is there. A steady-state open
// writes nothing to the database. Errors name the file, leave it as it is, and say what to do.
func Open(ctx context.Context, opts Options) (*File, error) {
	f, err := newFile(opts)
	if err != nil {
		return nil, err
	}
	c, err := f.openWriter(ctx)
	if err != nil {
		return nil, f.named(f.explain(err, "it was left as it is"))
	}
	f.writer.conn = c
	f.watch.hold(c)
	own.add(f)
	if f.readable(c) {
		f.readers = newReaders(f)
	}
	go f.writer.run()
	return f, nil
}

// named puts the file's name before an error that does not carry it yet.
func (f *File) named(err error) error {
	if _, ok := errors.AsType[*problem.Error](err); ok {
		return err
	}
	return fmt.Errorf("open %s: %w", f.thing(), err)
}

func newFile(opts Options) (*File, error) {
	opts.seams.fill()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	path, err := resolve(opts.Path)
	if errors.Is(err, fs.ErrPermission) {
		err = &classified{class: ReadOnly, err: err}
	}
	if err != nil {
		return nil, &problem.Error{
			Kind: problem.Denied, Thing: thingOf(opts.Label, opts.Path), What: "cannot be reached",
			Fate: "it was left as it is", Remedy: "check the permissions of its directory", Err: err,
		}
	}
	f := &File{opts: opts, path: path, walPath: path + "-wal", shmPath: path + "-shm", log: opts.Log, damage: latchOf(path)}
	f.writer = newWriter(f)
	return f, nil
}

// openWriter opens the writer connection, as often as patience allows while others hold the locks.
func (f *File) openWriter(ctx context.Context) (*Conn, error) {
	deadline := f.deadline(ctx, 0)
	for wait := newBackoff(); ; {
		var c *Conn
		err := guard(func() (err error) {
			c, err = f.tryOpen(ctx)
			return err
		})
		if err == nil {
			return c, nil
		}
		if ClassOf(err) == IO {
			if lost := f.refuseRetired(ctx, err); lost != nil {
				return nil, lost
			}
		}
		if ClassOf(err) != Busy || !wait.pause(ctx, deadline) {
			return nil, err
		}
	}
}

func (f *File) tryOpen(ctx context.Context) (*Conn, error) {
	if err := f.preflight(ctx); err != nil {
		return nil, err
	}
	if err := f.awaitOldJournal(); err != nil {
		return nil, err
	}
	c, err := f.dial()
	if err != nil {
		return nil, err
	}
	if err := guard(func() error { return f.begin(ctx, c) }); err != nil {
		f.drop(c)
		return nil, err
	}
	return c, nil
}

// begin turns a dialled connection into the writer of this File.
func (f *File) begin(ctx context.Context, c *Conn) error {
	view := f.opts.seams.disk(liveDisk{ctx, c, f})
	d := decider{
		disk: view, config: f.opts.Journal, log: f.log.With("path", f.path),
		admit: func() error { _, err := f.ask(ctx, c); return err },
	}
	release, err := library()
	if err != nil {
		return fmt.Errorf("ask SQLite for its version: %w", err)
	}
	f.library = release
	if walResets(release) {
		d.unsafe = release
	}
	journal, err := d.decide()
	if f.takeReadOnly(err) {
		journal, err = f.untouched(), nil
	}
	if err != nil {
		return err
	}
	f.journal = journal
	if err := f.settle(c, roleWriter); err != nil {
		return err
	}
	size, err := c.pragma("page_size")
	if err != nil {
		return fmt.Errorf("read page size: %w", err)
	}
	if f.page, err = strconv.ParseInt(size, 10, 64); err != nil {
		return fmt.Errorf("read page size: %w", err)
	}
	if f.ident, err = c.identify(); err != nil {
		return err
	}
	if err := f.checkIdentity(); err != nil {
		return err
	}
	if err := f.admitLatched(ctx, c); err != nil {
		return err
	}
	stale, err := f.ask(ctx, c)
	if f.takeReadOnly(err) {
		return c.apply(f.settings(roleWriter))
	}
	if err != nil {
		return err
	}
	f.alignModes()
	if stale && f.opts.Migrate != nil {
		if err := f.keepBefore(ctx, c); err != nil {
			return err
		}
		if err := f.migrate(c); err != nil {
			return err
		}
	}
	return f.noteAppID(c)
}

// readable reports whether readers of their own may be opened: only when the database really is in WAL, by its
// mode and by its header. An assumed mode is not enough.
func (f *File) readable(c *Conn) bool {
	if f.journal.Mode != "wal" || f.journal.assumed || c.main == nil {
		return false
	}
	head, err := readHeader(c.main)
	return err == nil && head[headerWriteVer] == 2 && head[headerReadVer] == 2
}

// ask puts Options.Stale's question, which may refuse the file. It comes before the first thing that changes
// anything: the switch to WAL once changed databases of other programs that were refused a moment later.
func (f *File) ask(ctx context.Context, c *Conn) (stale bool, err error) {
	if f.opts.Stale == nil {
		return false, nil
	}
	err = c.inRead(ctx, func(c *Conn) (err error) {
		stale, err = f.opts.Stale(c)
		return err
	})
	if _, said := errors.AsType[*problem.Error](err); said {
		return false, err // in full already
	}
	if err != nil {
		return false, fmt.Errorf("check schema: %w", err)
	}
	if stale && f.opts.Prepare != nil {
		f.opts.Prepare(ctx)
	}
	return stale, nil
}

// migrate does the schema work in one immediate transaction. It asks again inside: another process may have been
// faster.
func (f *File) migrate(c *Conn) error {
	if err := f.admit(OpMigration); err != nil {
		return err
	}
	if mutation.On("migration-without-transaction") {
		return f.migrateInside(c)
	}
	if err := c.control(sqlBegin); err != nil {
		return fmt.Errorf("migrate schema: %w", err)
	}
	err := f.migrateInside(c)
	if err == nil {
		f.writer.wrote = true
		err = c.control(sqlCommit)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("migrate schema: %w", err), c.rollback())
	}
	return nil
}

func (f *File) migrateInside(c *Conn) error {
	stale, err := f.opts.Stale(c)
	if err != nil || !stale {
		return err
	}
	return f.opts.Migrate(&Tx{c})
}
