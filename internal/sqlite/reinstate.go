package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// salvagedMark is the file in a capture's directory that says that its rows are in the database.
const salvagedMark = "salvaged.json"

// Salvaged reports whether the capture's rows are in the database.
func (c Capture) Salvaged() bool {
	_, err := os.Lstat(filepath.Join(c.Dir, salvagedMark))
	return err == nil
}

// MarkSalvaged says so, with whatever report there is to keep.
func (c Capture) MarkSalvaged(report any) error {
	if err := errors.Join(writeSynced(filepath.Join(c.Dir, salvagedMark), report), syncDir(c.Dir)); err != nil {
		return fmt.Errorf("mark capture %s: %w", c.Dir, err)
	}
	return nil
}

// remove takes a salvaged capture away, its mark last: what is left of a removal that was cut short is still salvaged.
func (c Capture) remove() error {
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == salvagedMark {
			continue
		}
		if err := os.RemoveAll(filepath.Join(c.Dir, e.Name())); err != nil {
			return err
		}
	}
	return os.RemoveAll(c.Dir)
}

// Reinstate writes the newest capture beside a database back into it, where nobody has written the database since its
// generation was lost: then what the capture plays back is the database, with every acknowledged row. It is for files
// whose rows have no names of their own, by which they could be added to later ones. It is nil and nothing is changed
// where there is no such capture; a Conflict problem where there is one and the database went on without it. Nobody
// may have the file open. It blocks for a copy and a whole check.
func Reinstate(ctx context.Context, path, label string, log *slog.Logger) error {
	captures, err := Captures(path)
	if err != nil || len(captures) == 0 || captures[0].Salvaged() {
		return err
	}
	f, err := newFile(Options{Path: path, Label: label, Log: log})
	if err != nil {
		return err
	}
	c := captures[0]
	if m := c.Manifest; m.WAL == nil || m.WAL.Bytes == 0 || m.OnDisk.WAL == m.WAL.Identity || m.Reason != ReasonLost {
		return nil // the -wal is where it belongs, or was empty, or the file is another one
	}
	if err := f.unwritten(c); err != nil {
		return err
	}
	if err := f.reinstate(ctx, c); err != nil {
		return f.explain(fmt.Errorf("reinstate %s: %w", c.Dir, err), "it was left as it is, and so was the capture "+c.Dir)
	}
	f.log.Warn("lost write-ahead log written back", "path", f.path, "capture", c.Dir)
	return c.MarkSalvaged(map[string]any{"reinstated_at": time.Now().UTC(), "pid": os.Getpid()})
}

// unwritten proves that the database is still what it was when its generation was lost. A checkpoint of the lost
// generation is older than the moment in which its -wal lost its name; every later change of the database is
// somebody's who did not know of the rows in that -wal.
func (f *File) unwritten(c Capture) error {
	if mutation.On("reinstates-over-later-rows") {
		return nil
	}
	m := c.Manifest
	went := func(how string) error {
		return f.refuse(Other, problem.Conflict, "went on without the rows in "+c.Dir+": "+how,
			"look for what is missing in a copy of that directory's database, and enter it again", nil)
	}
	switch {
	case m.Main.Mode != MainCopied:
		return went("it was too large to be captured")
	case m.OnDisk.Main != m.Main.Identity || nodeAt(f.path).String() != m.Main.Identity:
		return went("another file lies there now")
	case m.OnDisk.WALBytes > 0 || hasBytes(f.walPath):
		return went("it was written since")
	case m.MainWrittenAt.After(m.LostAt):
		return went("it was written before the capture was made")
	}
	_, sum, err := digest(f.path)
	if err != nil {
		return fmt.Errorf("compare %s with its capture: %w", f.thing(), err)
	}
	if sum != m.Main.SHA256 {
		return went("it was written since")
	}
	return nil
}

// reinstateMark is in the name of the directory in which a capture is played back.
const reinstateMark = ".reinstate-"

// reinstate plays the capture back beside the database and writes the result into the same file, in one transaction.
func (f *File) reinstate(ctx context.Context, c Capture) error {
	held, err := f.sole(ctx, OpRepair)
	if err != nil {
		return err
	}
	defer f.drop(held)
	left, _ := filepath.Glob(f.path + reinstateMark + "*") // of processes that were killed: nobody else is at it
	for _, dir := range left {
		os.RemoveAll(dir)
	}
	scratch, err := os.MkdirTemp(f.dir(), filepath.Base(f.path)+reinstateMark)
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	whole, err := ReplayCapture(ctx, c, scratch)
	if err != nil {
		return err
	}
	if err := f.unwritten(c); err != nil { // nobody can write any more
		return err
	}
	return guard(func() error {
		if err := held.db.Restore("main", fileURI(whole, "")); err != nil {
			return f.spaceDecides(fmt.Errorf("write back: %w", err))
		}
		_, _, err := held.db.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE)
		return err
	})
}
