package sqlite

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/problem"
)

// everything is every file of a directory with its content and permissions.
func everything(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(e.Name(), "-shm") {
			text = nil // who reads a database in WAL builds this index anew; it holds nothing
		}
		fmt.Fprintf(&out, "%s %s %x\n", e.Name(), info.Mode(), sha256.Sum256(text))
	}
	return out.String()
}

// A database of another program is refused before anything of it changes, whatever its journal mode: not a byte, not
// a permission, not a file beside it.
func TestWhatIsRefusedIsNotTouched(t *testing.T) {
	foreign := errors.New("of another program")
	for _, tc := range []struct{ name, script string }{
		{"rollback mode", "PRAGMA journal_mode=DELETE; CREATE TABLE users(id); INSERT INTO users VALUES (1)"},
		{"WAL, closed cleanly", "CREATE TABLE users(id); PRAGMA wal_checkpoint(TRUNCATE)"},
		{"WAL, with sidecars", "CREATE TABLE users(id)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := testOptions(t)
			o.Path = filepath.Join(filepath.Dir(o.Path), "a b?c%20#.db")
			plant(t, o.Path, tc.script)
			if tc.name == "WAL, closed cleanly" {
				for _, side := range []string{"-wal", "-shm"} {
					if err := os.Remove(o.Path + side); err != nil {
						t.Fatal(err)
					}
				}
			}
			before := everything(t, filepath.Dir(o.Path))
			o.Stale = func(c *Conn) (bool, error) {
				n := 0
				if _, err := c.Row("SELECT count(*) FROM users", nil, &n); err != nil {
					return false, err
				}
				return false, &problem.Error{Kind: problem.Damaged, Thing: "it", What: "is foreign", Err: foreign}
			}
			o.Prepare = func(context.Context) { t.Error("work was prepared on a refused file") }
			f, err := Open(t.Context(), o)
			if err == nil {
				f.Close()
			}
			if !errors.Is(err, foreign) {
				t.Errorf("open: %v", err)
			}
			if after := everything(t, filepath.Dir(o.Path)); after != before {
				t.Errorf("before:\n%safter:\n%s", before, after)
			}
		})
	}
}

// A program that crashed in rollback mode left a journal. Playing it back is a change too, so it is done to a copy until
// the file turns out to be ours.
func TestAJournalIsPlayedBackOnlyIntoAFileOfOurs(t *testing.T) {
	for _, ours := range []bool{false, true} {
		o := testOptions(t)
		crashed(t, o.Path)
		before, asked := everything(t, filepath.Dir(o.Path)), 0
		o.Stale = func(c *Conn) (bool, error) {
			var n, sum int
			if _, err := c.Row("SELECT count(*), sum(length(body)) FROM users", nil, &n, &sum); err != nil {
				return false, err
			}
			if asked++; n != 500 || sum != 500*100 {
				t.Errorf("asked of %d rows with %d bytes", n, sum)
			}
			if !ours {
				return false, &problem.Error{Kind: problem.Damaged, Thing: "it", What: "is foreign"}
			}
			return false, nil
		}
		f, err := Open(t.Context(), o)
		if err == nil {
			f.Close()
		}
		if (err == nil) != ours || asked == 0 {
			t.Errorf("ours %t: asked %d times: %v", ours, asked, err)
		}
		if after := everything(t, filepath.Dir(o.Path)); !ours && after != before {
			t.Errorf("before:\n%safter:\n%s", before, after)
		}
	}
}

// crashed leaves what a program leaves that dies in the middle of a large transaction: half of it in the file, and a
// journal with what stood there before.
func crashed(t *testing.T, path string) {
	t.Helper()
	alive := filepath.Join(t.TempDir(), "alive.db")
	db, err := OpenBare(alive)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(db.Exec(`PRAGMA journal_mode=DELETE; CREATE TABLE users(body);
WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i+1 FROM n WHERE i < 500) INSERT INTO users SELECT printf('%100d', i) FROM n;
PRAGMA cache_size=1; BEGIN; UPDATE users SET body = 'half'`), copyFile(alive, path), copyFile(alive+"-journal", path+"-journal"), db.Exec("ROLLBACK"), db.Close())
	if err != nil {
		t.Fatal(err)
	}
}

// plant makes a database as another program does.
func plant(t *testing.T, path, script string) {
	t.Helper()
	db, err := OpenBare(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Exec(script), db.Close()); err != nil {
		t.Fatal(err)
	}
	for _, side := range []string{"", "-wal", "-shm"} {
		if err := os.Chmod(path+side, 0o640); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
}

// The schema work is prepared outside of transactions, so that who waits there holds no lock that others wait for.
func TestSchemaWorkIsPreparedWithoutALock(t *testing.T) {
	o := testOptions(t)
	plant(t, o.Path, "PRAGMA journal_mode=DELETE; CREATE TABLE others(id)")
	asked := 0
	o.Prepare = func(context.Context) {
		if asked++; asked > 1 {
			return
		}
		db, err := sqlite3.OpenFlags(o.Path, sqlite3.OPEN_READWRITE)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Exec("BEGIN EXCLUSIVE; CREATE TABLE peers(id); COMMIT"), db.Close()); err != nil {
			t.Errorf("a peer cannot write meanwhile: %v", err)
		}
	}
	f := mustOpen(t, o)
	if asked == 0 {
		t.Error("nothing was prepared")
	}
	mustWrite(t, f, insert("a"))
	if got := f.Journal().Mode; got != "wal" {
		t.Errorf("journal mode %s", got)
	}
}
