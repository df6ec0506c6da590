package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
)

// Glance is what a database says of itself without being opened by SQLite: by the first bytes of its main file, which may
// be older than its -wal, and by what lies beside it.
type Glance struct {
	Bytes, WAL int64 // sizes of the main file and of its -wal
	PageSize   int
	Pages      int64
	Free       int64  // pages that hold nothing
	Journal    string // "wal" or "delete", as every program finds it in the header; "" cannot be told
	FSType     string // of the file system, "" where that cannot be told
}

const headerFreelist = 36 // big endian, pages on the freelist

// GlanceAt reads a hundred bytes and changes nothing. A file that is not there gives an error for which errors.Is says fs.ErrNotExist.
func GlanceAt(path string) (Glance, error) {
	main, err := openRegular(path)
	if err != nil {
		return Glance{}, err
	}
	defer main.Close()
	info, err := main.Stat()
	if err != nil {
		return Glance{}, err
	}
	head, err := readHeader(main)
	if err != nil && !errors.Is(err, io.EOF) {
		return Glance{}, err
	}
	g := Glance{Bytes: info.Size()}
	if wal, err := os.Stat(path + "-wal"); err == nil {
		g.WAL = wal.Size()
	}
	if mount, err := procfs.MountOf(filepath.Dir(path)); err == nil {
		g.FSType = mount.FSType
	}
	if h := parseHeader(head); h.Valid {
		g.PageSize, g.Pages = h.PageSize, int64(h.PageCount)
		g.Free = int64(binary.BigEndian.Uint32(head[headerFreelist:]))
		g.Journal = map[byte]string{1: "delete", 2: "wal"}[head[headerWriteVer]]
	}
	return g, nil
}

// Missed explains a database that is not there, or is empty, although something beside it says that it was: nil where
// it may be made anew, or is there. It changes nothing.
func Missed(path, label, backups string) error {
	f, err := newFile(Options{Path: path, Label: label, Backups: backups})
	if err != nil {
		return err
	}
	found, err := f.survey()
	kept, _ := CopiesIn(backups)
	if b, had := kept.Of(f.path, label); err == nil && found == placeVacant && had {
		err = f.refuse(Missing, problem.NotFound, "is gone, and a backup of it is in "+b.Dir, "gatewayd restore "+b.Dir, nil)
	}
	return err
}

// LosesCommits reports a release of SQLite in which restarting the write-ahead log could lose a commit where two
// connections met: 3.7.0 to 3.51.2 but for the branches that were mended. What cannot be read is taken for one.
func LosesCommits(release string) bool { return walResets(release) }

// Library is the release of the SQLite in this program, "3.54.1".
func Library() (string, error) { return library() }

// Tried is what is known of repairs of a file that failed.
type Tried struct {
	Times   int
	Last    time.Time
	Blocked bool   // it is not tried again
	Ledger  string // the file that says so
}

// RepairsTried reads the ledger of repairs of the file as it is now.
func RepairsTried(path string) (Tried, error) {
	l, err := openAttempts(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Tried{}, nil
	}
	if err != nil {
		return Tried{}, err
	}
	return Tried{Times: l.entry.FailedAttempts, Last: l.entry.LastAttempt, Blocked: l.entry.FailedAttempts >= repairTries, Ledger: l.path}, nil
}

// CheckpointAlone empties the -wal of a database into it while nobody has it open, and gives the bytes that were in it. It fails closed: where
// any process holds the file, or may, it is Busy and nothing is touched; likewise where the file is damaged.
func CheckpointAlone(ctx context.Context, path, label string) (freed int64, err error) {
	f, err := newFile(Options{Path: path, Label: label})
	if err != nil {
		return 0, err
	}
	if err := f.preflight(ctx); err != nil {
		return 0, err
	}
	if info, err := os.Stat(f.walPath); err == nil {
		freed = info.Size()
	}
	lock, err := takeLock(ctx, repairLockPath(f.path), maintenanceLockWait)
	if err != nil {
		return 0, f.explain(err, "it was left as it is")
	}
	defer lock.Close()
	if mutation.On("fix-checkpoints-beside-a-holder") {
		return freed, f.checkpointBeside()
	}
	c, err := f.sole(ctx, OpCheckpoint)
	if err != nil {
		return 0, err
	}
	defer f.drop(c)
	err = guard(func() error {
		if err := c.mustBeWhole(); err != nil {
			return err
		}
		return c.settleAlone(f)
	})
	return freed, f.explain(err, "its rows were left as they are")
}

// checkpointBeside is what CheckpointAlone must never do.
func (f *File) checkpointBeside() error {
	c, err := f.dial()
	if err != nil {
		return err
	}
	defer f.drop(c)
	return guard(func() error { return c.settleAlone(f) })
}
