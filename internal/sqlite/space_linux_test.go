package sqlite

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"gatewayd/internal/problem"
)

// smallDisk mounts a file system of a megabyte.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("NOT TESTED: no small file system can be mounted here: ", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func big(uid string) Op {
	op := insert(uid)
	op.Do = func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO rows (uid, body) VALUES (?, hex(zeroblob(30000)))", uid)
		return err
	}
	return op
}

func TestAFullDiskIsNamedAndTheNextWriteWorksWithSpaceBack(t *testing.T) {
	o := testOptions(t)
	o.Path = filepath.Join(smallDisk(t), "full.db")
	f := mustOpen(t, o)
	stored := 0
	var err error
	for ; err == nil; stored++ {
		err = f.Write(t.Context(), big(strings.Repeat("x", stored+1)))
	}
	stored--
	if ClassOf(err) != NoSpace || !problem.Is(err, problem.Full) {
		t.Fatalf("after %d rows: class %s: %v", stored, ClassOf(err), err)
	}
	if n := count(t, f); n != stored {
		t.Errorf("rows = %d, want %d", n, stored)
	}
	if err := f.Quarantine(); err != nil {
		t.Errorf("a full disk is no reason for quarantine: %v", err)
	}
	if err := unix.Mount("tmpfs", f.dir(), "tmpfs", unix.MS_REMOUNT, "size=8m"); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, f, big("space is back"))
	if n := count(t, f); n != stored+1 {
		t.Errorf("rows = %d, want %d", n, stored+1)
	}
}

func TestOnlyAFailedWriteOnAFullFileSystemIsNoSpace(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	for _, tc := range []struct {
		full bool
		err  error
		want Class
	}{
		{true, sqlite3.IOERR_WRITE, NoSpace},
		{true, sqlite3.IOERR_FSYNC, NoSpace},
		{true, sqlite3.IOERR_SHMSIZE, NoSpace},
		{false, sqlite3.IOERR_WRITE, IO},
		{true, sqlite3.IOERR_READ, IO},
		{true, sqlite3.BUSY, Busy},
		{false, sqlite3.FULL, NoSpace},
		{false, unix.ENOSPC, Other},
	} {
		f.opts.seams.full = func(string) bool { return tc.full }
		if got := ClassOf(f.explain(tc.err, "")); got != tc.want {
			t.Errorf("full=%t %v: %s, want %s", tc.full, tc.err, got, tc.want)
		}
	}
}

func TestClassesGoByCodeAndLookThroughWrapping(t *testing.T) {
	for code, want := range map[error]Class{
		sqlite3.BUSY: Busy, sqlite3.BUSY_SNAPSHOT: Busy, sqlite3.LOCKED: Busy, sqlite3.CORRUPT: Corrupt,
		sqlite3.CORRUPT_VTAB: Corrupt, sqlite3.IOERR_SHORT_READ: Corrupt, sqlite3.IOERR_DATA: Corrupt,
		sqlite3.NOTADB: NotADatabase, sqlite3.CANTOPEN_ISDIR: NotADatabase, sqlite3.READONLY_DBMOVED: Replaced,
		sqlite3.READONLY: ReadOnly, sqlite3.PERM: ReadOnly, sqlite3.FULL: NoSpace, sqlite3.IOERR: IO,
		sqlite3.PROTOCOL: IO, sqlite3.CANTOPEN: IO, sqlite3.CONSTRAINT_UNIQUE: Constraint, sqlite3.INTERRUPT: Interrupted,
		sqlite3.ERROR: Other, sqlite3.MISUSE: Other, errClosed: Closed, errors.New("locked"): Other,
	} {
		for _, err := range []error{code, &problem.Error{Err: errors.Join(errors.New("x"), code)}} {
			if got := ClassOf(err); got != want {
				t.Errorf("%v: %s, want %s", err, got, want)
			}
		}
	}
}
