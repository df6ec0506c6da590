package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/problem"
)

// stamped gives the test database an application_id, as a store has one.
func stamped(t *testing.T) Options {
	o := testOptions(t)
	o.Migrate = func(tx *Tx) error { return tx.Script(testSchema + "PRAGMA application_id=77; PRAGMA user_version=1;") }
	return o
}

// removeAll unlinks parts of a database.
func removeAll(path string, parts ...string) error {
	for _, part := range parts {
		if err := os.Remove(path + part); err != nil {
			return err
		}
	}
	return nil
}

// overwrite copies another database into the file that is open, as cp does.
func overwrite(t *testing.T, path string) error {
	t.Helper()
	o := testOptions(t)
	o.Migrate = func(tx *Tx) error { return tx.Script(testSchema + "PRAGMA application_id=78; PRAGMA user_version=1;") }
	g := mustOpen(t, o)
	mustWrite(t, g, insert("of the other"))
	if _, err := g.Checkpoint(t.Context()); err != nil {
		return err
	}
	if err := g.Close(); err != nil {
		return err
	}
	data, err := os.ReadFile(o.Path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// ways are what strangers do to a database that is open.
var ways = []struct {
	name  string
	do    func(t *testing.T, f *File) error
	class Class
}{
	{"wal unlinked", func(_ *testing.T, f *File) error { return removeAll(f.Path(), "-wal") }, LostWAL},
	{"shm unlinked", func(_ *testing.T, f *File) error { return removeAll(f.Path(), "-shm") }, LostWAL},
	{"both unlinked", func(_ *testing.T, f *File) error { return removeAll(f.Path(), "-wal", "-shm") }, LostWAL},
	{"wal renamed", func(_ *testing.T, f *File) error { return os.Rename(f.Path()+"-wal", f.Path()+"-wal.old") }, LostWAL},
	{"wal replaced", func(t *testing.T, f *File) error { return os.Rename(copyOf(t, f.Path()+"-wal"), f.Path()+"-wal") }, LostWAL},
	{"main unlinked", func(_ *testing.T, f *File) error { return removeAll(f.Path(), "") }, Replaced},
	{"main renamed", func(_ *testing.T, f *File) error { return os.Rename(f.Path(), f.Path()+".old") }, Replaced},
	{"main replaced", func(t *testing.T, f *File) error { replaceWith(t, f); return nil }, Replaced},
	{"all unlinked", func(_ *testing.T, f *File) error { return removeAll(f.Path(), "", "-wal", "-shm") }, Replaced},
	{"main overwritten", func(t *testing.T, f *File) error { return overwrite(t, f.Path()) }, Overwritten},
}

func TestEveryAcknowledgedRowIsOnDiskOrInTheCapture(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		for _, met := range []string{"by a write", "by close"} {
			t.Run(way.name+" "+met, func(t *testing.T) {
				t.Parallel()
				o := stamped(t)
				f := mustOpen(t, o)
				mustWrite(t, f, insert("checkpointed"))
				if _, err := f.Checkpoint(t.Context()); err != nil {
					t.Fatal(err)
				}
				acked := []string{"checkpointed"}
				for i := range 5 {
					mustWrite(t, f, insert(fmt.Sprint("in the wal ", i)))
					acked = append(acked, fmt.Sprint("in the wal ", i))
				}
				if err := way.do(t, f); err != nil {
					t.Fatal(err)
				}
				if met == "by a write" {
					if err := f.Write(t.Context(), insert("refused")); ClassOf(err) != way.class || !problem.Is(err, problem.Damaged) {
						t.Errorf("the write got %v, want %s", err, way.class)
					}
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				if c := wantCapture(t, f); way.class == Overwritten {
					wantBytes(t, c, acked) // of the file that was overwritten only the -wal is left
				} else if got := replayed(t, c); !slices.Equal(got, acked) {
					t.Errorf("the capture holds %q, acknowledged are %q", got, acked)
				}
			})
		}
	}
}

func wantCapture(t *testing.T, f *File) Capture {
	t.Helper()
	all, err := Captures(f.Path())
	if err != nil || len(all) != 1 {
		t.Fatalf("captures: %+v, %v", all, err)
	}
	m := all[0].Manifest
	if m.PID != os.Getpid() || m.WAL == nil || m.WAL.Bytes == 0 || m.SHM == nil || !m.Main.Header.Valid || m.Database != f.Path() {
		t.Errorf("manifest: %+v", m)
	}
	if left, _ := filepath.Glob(f.Path() + "*" + partialSuffix); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return all[0]
}

func wantBytes(t *testing.T, c Capture, rows []string) {
	t.Helper()
	wal, err := os.ReadFile(filepath.Join(c.Dir, c.Manifest.WAL.File))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		if !bytes.Contains(wal, []byte(row)) {
			t.Errorf("%q is not in the captured -wal", row)
		}
	}
}

// replayed gives the rows of a capture.
func replayed(t *testing.T, c Capture) []string {
	t.Helper()
	path, err := ReplayCapture(t.Context(), c, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := testOptions(t)
	o.Path, o.Create = path, false
	g := mustOpen(t, o)
	defer g.Close()
	return uids(t, g)
}

// A checkpoint of the lost -wal would write over what the next generation has in the database.
func TestClosingALostGenerationDoesNotWriteIntoTheDatabase(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("a"))
	if err := removeAll(f.Path(), "-wal", "-shm"); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(f.Path()); err != nil || !bytes.Equal(before, after) {
		t.Errorf("close wrote into the database: %v", err)
	}
}

// A third process has made new sidecars, so nothing is missing on disk, while another still writes into the old ones.
func TestALostGenerationIsSeenBehindTheNextOne(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	f := mustOpen(t, o)
	mustWrite(t, f, insert("a"))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	other := newPuppet(t, o.Path)
	other.must("write into the old")
	if err := removeAll(o.Path, "-wal", "-shm"); err != nil {
		t.Fatal(err)
	}
	third, err := sqlite3.Open("file:" + o.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	if err := third.Exec("INSERT INTO rows (uid) VALUES ('into the new')"); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), o)
	if ClassOf(err) != LostWAL || !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), fmt.Sprintf("process %d ", other.PID())) {
		t.Errorf("got %v", err)
	}
	if got := other.do("write once more"); !strings.Contains(got, "lost its -wal") {
		t.Errorf("the holder was told %q", got)
	}
	other.must("close") // it captures what it wrote
	if c := wantCapturesOf(t, o.Path, 1)[0]; c.Manifest.PID != other.PID() || !slices.Contains(replayed(t, c), "into the old") {
		t.Errorf("capture: %+v", c)
	}
	g := mustOpen(t, o)
	if got := uids(t, g); !slices.Contains(got, "into the new") {
		t.Errorf("rows: %q", got)
	}
}

func wantCapturesOf(t *testing.T, path string, n int) []Capture {
	t.Helper()
	all, err := Captures(path)
	if err != nil || len(all) != n {
		t.Fatalf("%d captures, want %d: %+v, %v", len(all), n, all, err)
	}
	return all
}
