package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/problem"
)

// strange makes a database as a foreign program does, in the journal mode that it likes.
func strange(t *testing.T, statements ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "theirs.db")
	run(t, path, append([]string{`CREATE TABLE t(a INTEGER PRIMARY KEY, pair INTEGER, b TEXT)`}, statements...)...)
	return path
}

func run(t *testing.T, path string, statements ...string) {
	t.Helper()
	c, err := OpenBare(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, sql := range statements {
		if err := c.Exec(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func borrow(t *testing.T, path string) *Borrowed {
	t.Helper()
	b, err := Borrow(t.Context(), BorrowOptions{Path: path, Label: "theirs", Scratch: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func ask(t *testing.T, b *Borrowed, sql string) (value string) {
	t.Helper()
	err := b.Read(t.Context(), func(c *Conn) error {
		_, err := c.Row(sql, nil, &value)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func wants(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

// surroundings are the names, bytes and times of everything in a directory.
func surroundings(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %d %s %x\n", e.Name(), info.ModTime().UnixNano(), info.Mode(), raw)
	}
	return out.String()
}

// Borrowing leaves no trace beside the database, whatever state it was left in, and sees what the -wal or the journal holds.
func TestBorrowLeavesNoTrace(t *testing.T) {
	sealed := strange(t, `INSERT INTO t(b) VALUES('1')`, `PRAGMA wal_checkpoint(TRUNCATE)`)
	os.Remove(sealed + "-wal")
	os.Remove(sealed + "-shm")
	left := strange(t, `INSERT INTO t(b) VALUES('1')`) // closed without a checkpoint: all of it is in the -wal
	os.Remove(left + "-shm")
	rollback := strange(t, `INSERT INTO t(b) VALUES('1')`, `PRAGMA journal_mode=DELETE`)
	for name, path := range map[string]string{"sealed": sealed, "-wal left behind": left, "rollback journal": rollback} {
		t.Run(name, func(t *testing.T) {
			before := surroundings(t, filepath.Dir(path))
			b := borrow(t, path)
			wants(t, "rows", ask(t, b, `SELECT count(*) FROM t`), "1")
			wants(t, "integrity", ask(t, b, `PRAGMA integrity_check`), "ok")
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			if surroundings(t, filepath.Dir(path)) != before {
				t.Error("the directory of the database is no longer what it was")
			}
			if _, err := os.Stat(b.dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the copy is still there: %v", err)
			}
		})
	}
}

// A journal that a crash left hot is played back into the copy and stays what it is beside the original.
func TestBorrowPlaysAHotJournalBack(t *testing.T) {
	path := strange(t, `PRAGMA journal_mode=DELETE`)
	c, err := OpenBare(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	crashed := filepath.Join(t.TempDir(), "theirs.db")
	for _, sql := range []string{
		`PRAGMA journal_mode=DELETE`, `PRAGMA cache_size=2`, `INSERT INTO t(pair, b) VALUES(1, 'kept')`, `BEGIN`,
		`INSERT INTO t(pair, b) SELECT 2, hex(zeroblob(500)) FROM (WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 200) SELECT i FROM n)`,
	} {
		if err := c.Exec(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for _, suffix := range []string{"", "-journal"} { // as a power cut would leave them: pages were spilled already
		if err := copyFile(path+suffix, crashed+suffix); err != nil {
			t.Fatal(err)
		}
	}
	before := surroundings(t, filepath.Dir(crashed))
	b := borrow(t, crashed)
	wants(t, "rows", ask(t, b, `SELECT group_concat(b) FROM t`), "kept")
	wants(t, "integrity", ask(t, b, `PRAGMA integrity_check`), "ok")
	if surroundings(t, filepath.Dir(crashed)) != before {
		t.Error("the directory of the database is no longer what it was")
	}
}

// A copy taken while somebody writes, checkpoints and starts the -wal anew is of one moment: no half transaction, and
// everything that was committed before.
func TestBorrowIsOfOneMoment(t *testing.T) {
	for _, mode := range []string{"WAL", "DELETE"} {
		t.Run(mode, func(t *testing.T) { borrowBesideAWriter(t, mode) })
	}
}

func borrowBesideAWriter(t *testing.T, mode string) {
	path := strange(t, `PRAGMA journal_mode=`+mode)
	stop, done, wrote := make(chan struct{}), make(chan error, 1), make(chan int64, 1)
	go func() { done <- writePairs(path, mode, stop, wrote) }()
	for range 12 {
		acked := <-wrote
		b := borrow(t, path)
		wants(t, "integrity", ask(t, b, `PRAGMA integrity_check`), "ok")
		wants(t, "halves of a pair", ask(t, b, `SELECT count(*) FROM (SELECT 1 FROM t GROUP BY pair HAVING count(*) <> 2)`), "0")
		wants(t, "what was committed before is there", ask(t, b, fmt.Sprintf(`SELECT max(pair) >= %d FROM t`, acked)), "1")
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// writePairs writes two rows far apart per transaction, in a file of some hundred pages, and checkpoints as often as it can.
func writePairs(path, mode string, stop <-chan struct{}, wrote chan int64) error {
	c, err := OpenBare(path)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Exec(`PRAGMA journal_mode=` + mode + `; PRAGMA synchronous=OFF; PRAGMA wal_autocheckpoint=8`); err != nil {
		return err
	}
	half := `INSERT OR REPLACE INTO t(a, pair, b) VALUES(%d, %d, printf('%%.*c', 3000, 'x'));`
	for n := int64(1); ; n++ {
		err := c.Exec(`BEGIN IMMEDIATE;` + fmt.Sprintf(half, n%300, n) + fmt.Sprintf(half, 1000+n%300, n) + `COMMIT`)
		if errors.Is(err, sqlite3.BUSY) && c.Exec(`ROLLBACK`) == nil {
			continue
		}
		if err != nil {
			return err
		}
		select {
		case <-wrote:
		default:
		}
		wrote <- n
		select {
		case <-stop:
			return nil
		default:
		}
	}
}

func TestBorrowExplainsWhatItCannotRead(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 20)), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	twice := strange(t, `CREATE TABLE u(a)`, `PRAGMA writable_schema=ON`, `INSERT INTO sqlite_schema SELECT * FROM sqlite_schema WHERE name = 'u'`)
	for _, c := range []struct {
		path string
		kind problem.Kind
		says string
	}{
		{filepath.Join(dir, "missing"), problem.NotFound, "does not exist"},
		{text, problem.Damaged, "is not a SQLite database"},
		{empty, problem.Damaged, "is empty"},
		{fifo, problem.Unavailable, "no regular file"},
		{dir, problem.Unavailable, "no regular file"},
		{twice, problem.Damaged, "already exists"},
	} {
		scratch := t.TempDir()
		_, err := Borrow(t.Context(), BorrowOptions{Path: c.path, Label: "theirs", Scratch: scratch})
		if !problem.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: %v", c.path, err)
		}
		if left, _ := os.ReadDir(scratch); len(left) > 0 {
			t.Errorf("%s: left in the scratch directory: %v", c.path, left)
		}
	}
}

// The copy of a process that was killed goes with the next one; a copy that is in use stays.
func TestBorrowSweepsCopiesThatWereLeft(t *testing.T) {
	path, scratch := strange(t), t.TempDir()
	left := filepath.Join(scratch, borrowedDir+"left")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	one, err := Borrow(t.Context(), BorrowOptions{Path: path, Scratch: scratch})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	two, err := Borrow(t.Context(), BorrowOptions{Path: path, Scratch: scratch})
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was left is still there: %v", err)
	}
	wants(t, "rows of the first copy", ask(t, one, `SELECT count(*) FROM t`), "0")
	if _, err := os.Stat(one.dir); err != nil {
		t.Errorf("the copy in use: %v", err)
	}
}
