package sqlite

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

// crashedInRollback is a database as a power cut leaves it in the middle of a transaction: the journal holds what was before.
func crashedInRollback(t *testing.T) (path string) {
	t.Helper()
	living := filepath.Join(t.TempDir(), "living.db")
	c, err := OpenBare(living)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, sql := range []string{
		`PRAGMA journal_mode=DELETE`, `PRAGMA cache_size=2`, `PRAGMA user_version=9`, `CREATE TABLE t(b TEXT)`, `BEGIN`,
		`INSERT INTO t SELECT hex(zeroblob(500)) FROM (WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 200) SELECT i FROM n)`,
	} {
		if err := c.Exec(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	path = filepath.Join(t.TempDir(), "crashed.db")
	if err := errors.Join(copyFile(living, path), copyFile(living+"-journal", path+"-journal")); err != nil {
		t.Fatal(err)
	}
	return path
}

var errNewer = &problem.Error{Kind: problem.Config, Thing: "it", What: "is of a newer program"}

// A database of a newer program that crashed is refused with its journal as it lies. The copy that this takes is beside it and goes; one that a
// killed process left is removed; and where it would fill the disk, none is made and that is said.
func TestALookAtACrashedDatabaseLeavesNothingAndFillsNoDisk(t *testing.T) {
	path := crashedInRollback(t)
	dir := filepath.Dir(path)
	var log bytes.Buffer
	o := Options{Path: path, Stale: func(*Conn) (bool, error) { return false, errNewer }, Log: slog.New(slog.NewTextHandler(&log, nil))}
	before := surroundings(t, dir)
	left := filepath.Join(dir, borrowedDir+"left")
	if err := errors.Join(os.Mkdir(left, 0o700), os.WriteFile(filepath.Join(left, borrowedName), make([]byte, 1<<20), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", filepath.Join(dir, "there-is-none"))
	if f, err := Open(t.Context(), o); !errors.Is(err, errNewer) {
		_ = f.Close()
		t.Fatalf("opened: %v", err)
	}
	if after := surroundings(t, dir); after != before {
		t.Errorf("the directory is not what it was; it has now\n%s", namesIn(t, dir))
	}

	o.seams.free = func(string) (int64, error) { return 300 << 10, nil }
	f, err := newFile(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.lookAtCopy(t.Context(), path+"-journal"); err != nil {
		t.Errorf("without room for a copy: %v", err)
	}
	if !strings.Contains(log.String(), "without a look at a copy") || surroundings(t, dir) != before {
		t.Errorf("without room for a copy: %s\n%s", log.String(), namesIn(t, dir))
	}
}
