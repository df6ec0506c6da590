package sqlite

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/problem"
)

// replaceWith renames another database over the open one, as a careless restore does.
func replaceWith(t *testing.T, f *File) (other string) {
	t.Helper()
	o := testOptions(t)
	g := mustOpen(t, o)
	mustWrite(t, g, insert("of the other"))
	if _, err := g.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.Close()
	if err := os.Rename(o.Path, f.Path()); err != nil {
		t.Fatal(err)
	}
	return f.Path()
}

func TestEachWayToLoseTheFileIsNoticedBeforeTheNextWrite(t *testing.T) {
	for _, tc := range []struct {
		name  string
		do    func(t *testing.T, f *File) error
		class Class
	}{
		{"main replaced", func(t *testing.T, f *File) error { replaceWith(t, f); return nil }, Replaced},
		{"main unlinked", func(t *testing.T, f *File) error { return os.Remove(f.Path()) }, Replaced},
		{"wal unlinked", func(t *testing.T, f *File) error { return os.Remove(f.Path() + "-wal") }, LostWAL},
		{"shm unlinked", func(t *testing.T, f *File) error { return os.Remove(f.Path() + "-shm") }, LostWAL},
		{"directory moved", func(t *testing.T, f *File) error { return os.Rename(f.dir(), f.dir()+".moved") }, Replaced},
		{"wal replaced", func(t *testing.T, f *File) error {
			return os.Rename(copyOf(t, f.Path()+"-wal"), f.Path()+"-wal")
		}, LostWAL},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := mustOpen(t, testOptions(t))
			mustWrite(t, f, insert("before"))
			if err := tc.do(t, f); err != nil {
				t.Fatal(err)
			}
			ran := false
			op := Op{Label: "after", Do: func(*Tx) error { ran = true; return nil }}
			for range 2 { // the finding sticks
				err := f.Write(t.Context(), op)
				if ClassOf(err) != tc.class || !problem.Is(err, problem.Damaged) {
					t.Errorf("got %v, want %s", err, tc.class)
				}
			}
			if ran {
				t.Error("the operation ran")
			}
			if f.Replaced() != (tc.class == Replaced) || f.Lost() != (tc.class == LostWAL) && tc.name != "directory moved" || ClassOf(f.Quarantine()) != tc.class {
				t.Errorf("replaced=%t, lost=%t, quarantine=%v", f.Replaced(), f.Lost(), f.Quarantine())
			}
			if _, err := f.Checkpoint(t.Context()); ClassOf(err) != tc.class {
				t.Errorf("checkpoint: %v", err)
			}
			if err := f.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

func copyOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".copy", data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path + ".copy"
}

// SQLite's own close would checkpoint into the orphan and then delete the -wal and -shm by path, which belong to
// the new database.
func TestClosingAReplacedFileLeavesTheNewOneAlone(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("before"))
	path := replaceWith(t, f)
	f.Write(t.Context(), insert("after"))
	before := TakeFingerprint(path)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	after := TakeFingerprint(path)
	if after.Main != before.Main {
		t.Errorf("close changed the new file: %+v, was %+v", after, before)
	}
	if after.WAL.There {
		t.Error("the -wal of the old file is still there, and would be played into the new one")
	}
	o := testOptions(t)
	o.Path, o.Create = path, false
	if got := uids(t, mustOpen(t, o)); !slices.Equal(got, []string{"of the other"}) {
		t.Errorf("the new file holds %q", got)
	}
}

// uids lists the rows.
func uids(t testing.TB, f *File) (all []string) {
	t.Helper()
	err := f.Read(context.Background(), func(c *Conn) error {
		all = nil
		for row, err := range c.Query("SELECT uid FROM rows ORDER BY id") {
			if err != nil {
				return err
			}
			all = append(all, row.Text(0))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A reader opened after the replacement would read the new file while the writer holds the old one.
func TestAReaderNeverReadsTheOtherFile(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("before"))
	replaceWith(t, f)
	var uid string
	err := f.Read(t.Context(), func(c *Conn) error {
		_, err := c.Row("SELECT uid FROM rows", nil, &uid)
		return err
	})
	if err != nil && ClassOf(err) != Replaced {
		t.Errorf("read: %v", err)
	}
	if uid == "of the other" {
		t.Error("the reader read the new file through the old handle")
	}
	if !f.Replaced() {
		t.Error("the replacement was not noticed")
	}
}

func TestAStampNoticesAReplacement(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	replaceWith(t, f)
	if _, err := f.Stamp(); ClassOf(err) != Replaced {
		t.Errorf("got %v", err)
	}
	if !f.Replaced() {
		t.Error("not flagged")
	}
}

func TestDamageGoesBeforeReplacement(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	f.halt(&f.loss, LostWAL, f.Path()+"-wal")
	f.damage.set(f.ident.main, halt{class: Corrupt, err: classify(Corrupt, "bad page")})
	if got := ClassOf(f.Quarantine()); got != Corrupt {
		t.Errorf("quarantine = %s", got)
	}
}

func TestALinkToADatabaseIsTheDatabase(t *testing.T) {
	o := testOptions(t)
	f := mustOpen(t, o)
	link := t.TempDir() + "/link.db"
	if err := os.Symlink(f.Path(), link); err != nil {
		t.Fatal(err)
	}
	o.Path, o.Create = link, false
	g := mustOpen(t, o)
	if g.Path() != f.Path() {
		t.Errorf("path = %s, want %s", g.Path(), f.Path())
	}
	mustWrite(t, g, insert("by link"))
	if n := count(t, f); n != 1 {
		t.Errorf("rows = %d", n)
	}
}

func TestNonASCIIAndURLLikePathsWork(t *testing.T) {
	for _, name := range []string{"a b.db", "ü?x=1#y%20.db", "file:x.db"} {
		o := testOptions(t)
		o.Path = t.TempDir() + "/" + name
		f := mustOpen(t, o)
		mustWrite(t, f, insert("a"))
		if _, err := os.Stat(o.Path); err != nil || !strings.HasSuffix(f.Path(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Between the loss and the return of the file others may have written; nothing says that the two fit together.
func TestAHaltOutlivesTheReturnOfTheFile(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	aside := f.Path() + ".aside"
	if err := os.Rename(f.Path(), aside); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), insert("a")); ClassOf(err) != Replaced {
		t.Fatalf("got %v", err)
	}
	if err := os.Rename(aside, f.Path()); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), insert("b")); ClassOf(err) != Replaced {
		t.Errorf("got %v", err)
	}
}

func TestADamagedDatabaseIsNotWrittenOrCheckpointedAnyMore(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("a"))
	err := f.Write(t.Context(), Op{Label: "meets damage", Do: func(*Tx) error { return sqlite3.CORRUPT }})
	if ClassOf(err) != Corrupt || !problem.Is(err, problem.Damaged) {
		t.Errorf("got %v", err)
	}
	if err := f.Write(t.Context(), insert("b")); ClassOf(err) != Corrupt {
		t.Errorf("the next write: %v", err)
	}
	if n := count(t, f); n != 1 {
		t.Errorf("rows = %d", n)
	}
	before := TakeFingerprint(f.Path())
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if after := TakeFingerprint(f.Path()); after != before {
		t.Errorf("close wrote: %+v, was %+v", after, before)
	}
}

func TestADamagedIndexOfAVirtualTableIsNotDamage(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	err := f.Write(t.Context(), Op{Label: "index", Do: func(*Tx) error { return sqlite3.CORRUPT_VTAB }})
	if ClassOf(err) != Corrupt {
		t.Errorf("got %v", err)
	}
	mustWrite(t, f, insert("a"))
}
