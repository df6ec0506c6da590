package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
	"gatewayd/sessiondb"
)

// Database is a file of the house: state.db, or a board.
type Database struct {
	Label string // as people and backups call it: "state.db", "board default"
	Path  string
	Board bool
}

// largeFile is the size above which a database is not copied by itself.
const largeFile = 1 << 30

// visit is one database as it was found. What was not reached is nil or zero.
type visit struct {
	Database
	house *House

	lost   error // it is not there, or is no file, and should be
	absent bool  // it is not there, and never was
	glance sqlite.Glance
	shut   error // it cannot be read

	copied *sqlite.Borrowed
	beyond string // why it was not copied
	faults sqlite.Faults
	broken error // the examination's

	store   sessiondb.Look
	board   kanban.Look
	content error // why it cannot be read what it holds
}

var databaseProbes = []struct {
	name string
	look func(context.Context, *visit) []Check
	bare bool // it can look although the file cannot be read
}{
	{"file", lookFile, true},
	{"size", lookSize, false},
	{"wal", lookWAL, false},
	{"journal", lookJournal, false},
	{"holders", lookHolders, true},
	{"pages", lookPages, false},
	{"indexes", lookIndexes, false},
	{"schema", lookSchema, false},
	{"rows", lookRows, false},
	{"newest row", lookNewest, false},
	{"write", lookWrite, false},
	{"repairs", lookRepairs, true},
	{"spool", lookSpool, true},
	{"capture", lookCaptures, true},
}

func examineDatabase(ctx context.Context, h *House, db Database) (all []Check) {
	v := &visit{Database: db, house: h}
	v.arrive(ctx)
	if v.copied != nil {
		defer v.copied.Close()
	}
	for _, p := range databaseProbes {
		if !p.bare && (v.lost != nil || v.absent || v.shut != nil) {
			continue
		}
		for _, c := range p.look(ctx, v) {
			c.Name, c.Subject = p.name, db.Label
			all = append(all, c)
		}
	}
	return all
}

// arrive looks at the file from outside, then takes a copy and reads that.
func (v *visit) arrive(ctx context.Context) {
	if v.lost = sqlite.Missed(v.Path, v.Label, v.house.Backups); v.lost != nil {
		return
	}
	v.glance, v.shut = sqlite.GlanceAt(v.Path)
	if errors.Is(v.shut, fs.ErrNotExist) || v.shut == nil && v.glance.Bytes == 0 {
		v.absent, v.shut = true, nil
		return
	}
	if v.shut != nil {
		return
	}
	if v.glance.Bytes+v.glance.WAL > largeFile && !v.house.Large {
		v.beyond = fmt.Sprintf("it is %s large", size(v.glance.Bytes+v.glance.WAL))
		return
	}
	v.copy(ctx)
}

// scratch is where copies are for the moment: in the home, which is as private as what they are copies of, or where it cannot be
// written, among the temporary files.
func (h *House) scratch() string {
	if unix.Access(h.Home, unix.W_OK|unix.X_OK) == nil {
		return h.Home
	}
	return os.TempDir()
}

func (v *visit) copy(ctx context.Context) {
	copied, err := sqlite.Borrow(ctx, sqlite.BorrowOptions{Path: v.Path, Label: v.Label, Scratch: v.house.scratch()})
	switch {
	case problem.Is(err, problem.Damaged):
		v.broken = err
		return
	case problem.Is(err, problem.Full), problem.Is(err, problem.Busy):
		v.beyond = err.Error()
		return
	case err != nil:
		v.shut = err
		return
	}
	v.copied = copied
	if v.faults, v.broken = copied.Examine(ctx); v.broken != nil {
		return
	}
	v.content = copied.Read(ctx, func(c *sqlite.Conn) (err error) {
		if v.Board {
			v.board, err = kanban.LookAt(c)
			return err
		}
		v.store, err = sessiondb.LookAt(c, v.Path)
		return err
	})
}

// notCopied is the check of what only a copy can tell.
func (v *visit) notCopied() []Check {
	switch {
	case v.copied != nil && v.broken == nil:
		return nil
	case v.beyond != "":
		return []Check{{State: Skipped, Says: "not looked at: " + v.beyond, Remedy: "gatewayd doctor --large"}}
	}
	return []Check{} // the pages' check says why
}

// foreign says why the file is of another program.
func (v *visit) foreign() string {
	switch {
	case v.Board:
		return v.board.Foreign
	case v.store.Foreign != nil:
		return "it has neither our mark nor our tables"
	}
	return ""
}

func lookFile(_ context.Context, v *visit) []Check {
	info, err := os.Lstat(v.Path)
	if _, gone := os.Stat(v.Path); err == nil && info.Mode()&fs.ModeSymlink != 0 && errors.Is(gone, fs.ErrNotExist) {
		return []Check{bad(Fail, "mount or restore what it leads to, or remove the link", "%s is a link to nothing", v.Path)}
	}
	switch {
	case v.lost != nil:
		return []Check{wrong(Fail, v.lost)}
	case v.absent:
		return []Check{good("not made yet")}
	case v.shut != nil:
		return []Check{wrong(Fail, v.shut)}
	case v.foreign() != "":
		return []Check{bad(Fail, "move it away, or "+sqlite.PutBack, "%s is a database of another program: %s", v.Path, v.foreign())}
	}
	return []Check{good("%s", v.Path)}
}

func size(n int64) string {
	if n < 10<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
