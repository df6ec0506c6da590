package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
)

// lose writes a row and takes the -wal away.
func lose(t *testing.T, f *File) {
	t.Helper()
	mustWrite(t, f, insert("acknowledged"))
	if err := os.Remove(f.walPath); err != nil {
		t.Fatal(err)
	}
}

func TestTwoHandlesOfOneGenerationMakeOneCapture(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	f, g := mustOpen(t, o), mustOpen(t, o)
	lose(t, f)
	for range 2 { // at the halt, and asked for
		if err := f.Write(t.Context(), insert("refused")); ClassOf(err) != LostWAL {
			t.Fatal(err)
		}
		if _, err := f.Capture(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range []*File{g, f} {
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c := wantCapturesOf(t, o.Path, 1)[0]
	if got := replayed(t, c); !slices.Equal(got, []string{"acknowledged"}) || c.Manifest.Trigger != "halt" {
		t.Errorf("%q in %+v", got, c.Manifest)
	}
}

func TestASalvagedCaptureDoesNotStandForADatabaseThatIsGone(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, testOptions(t))
	lose(t, f)
	stage := func() Capture {
		t.Helper()
		c, err := f.stageHeld("halt", "")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := stage()
	if err := first.MarkSalvaged("all of it"); err != nil {
		t.Fatal(err)
	}
	if again := stage(); again.Dir != first.Dir {
		t.Errorf("the database is still there, and %s was made", again.Dir)
	}
	if err := os.Rename(f.Path(), f.Path()+".moved"); err != nil {
		t.Fatal(err)
	}
	second := stage()
	if second.Salvaged() || stage().Dir != second.Dir {
		t.Errorf("%s stands for rows that no database has", second.Dir)
	}
	if got := replayed(t, second); !slices.Equal(got, []string{"acknowledged"}) {
		t.Errorf("%q", got)
	}
}

func TestAHealthyHandleIsNotCaptured(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, testOptions(t))
	if _, err := f.Capture(t.Context()); !problem.Is(err, problem.Conflict) {
		t.Errorf("got %v", err)
	}
	wantCapturesOf(t, f.Path(), 0)
}

func TestCloseDoesNotEndWithoutItsCaptureAndCanBeTriedAgain(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	trouble, free := error(syscall.EIO), int64(1<<40)
	o.seams.captured = func(string) error { return trouble }
	o.seams.free = func(string) (int64, error) { return free, nil }
	f := mustOpen(t, o)
	lose(t, f)
	held := func() bool {
		fds, err := procfs.OwnFiles(procfs.OnDisk)
		if err != nil {
			t.Fatal(err)
		}
		file, err := openOwn(fds, f.ident.wal)
		if err == nil {
			file.Close()
		}
		return err == nil
	}
	if err := f.Close(); !errors.Is(err, syscall.EIO) || !problem.Is(err, problem.Unavailable) || !held() {
		t.Fatalf("close: %v, held: %t", err, held())
	}
	trouble, free = nil, 100<<20
	if err := f.Close(); !problem.Is(err, problem.Full) || !held() {
		t.Fatalf("close on a full disk: %v", err)
	}
	if left, _ := filepath.Glob(o.Path + captureWord + "*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	free = 1 << 40
	if err := f.Close(); err != nil { // the inode is free, and may be another file's by now
		t.Fatalf("close: %v", err)
	}
	if got := replayed(t, wantCapturesOf(t, o.Path, 1)[0]); !slices.Equal(got, []string{"acknowledged"}) {
		t.Errorf("%q", got)
	}
}

func TestBeyondItsCapACaptureHasTheHeaderAndTheWAL(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	for i := range captureCount + 1 {
		f := mustOpen(t, o)
		mustWrite(t, f, insert(fmt.Sprint("row ", i)))
		if err := removeAll(o.Path, "-wal", "-shm"); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		o.Create = false
		// What is not in the capture's database was lost with the -wal; start the next one whole.
		if i == 0 {
			restoreFrom(t, wantCapturesOf(t, o.Path, 1)[0], o.Path)
		}
	}
	all := wantCapturesOf(t, o.Path, captureCount+1)
	last := all[slices.IndexFunc(all, func(c Capture) bool { return c.Manifest.Main.Mode == MainHeaderOnly })]
	if m := last.Manifest; m.Main.Bytes != headerSize || m.WAL.Bytes == 0 || !m.Main.Header.Valid {
		t.Errorf("%+v", m)
	}
	if _, err := ReplayCapture(t.Context(), last, t.TempDir()); !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), "no copy of the database") {
		t.Errorf("replay: %v", err)
	}
}

// A salvaged capture has done its work: it must not cost the next loss its database.
func TestSalvagedCapturesMakeRoomForTheNextWholeOne(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	var first Capture
	for i := range captureCount + 2 {
		f := mustOpen(t, o)
		mustWrite(t, f, insert(fmt.Sprint("row ", i)))
		if err := removeAll(o.Path, "-wal", "-shm"); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		o.Create = false
		all := wantCapturesOf(t, o.Path, min(i+1, captureCount))
		newest := all[0]
		if i > 0 && newest.Manifest.CapturedAt.Before(all[1].Manifest.CapturedAt) {
			t.Error("the newest is not listed first")
		}
		if newest.Manifest.Main.Mode != MainCopied {
			t.Fatalf("loss %d has no copy of the database: %+v", i+1, newest.Manifest)
		}
		if i == 0 {
			first = newest
			restoreFrom(t, newest, o.Path)
		}
		if err := newest.MarkSalvaged("done"); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range wantCapturesOf(t, o.Path, captureCount) {
		if c.Manifest.CapturedAt.Equal(first.Manifest.CapturedAt) {
			t.Error("the oldest is still there")
		}
	}
}

// restoreFrom puts what a capture holds in the place of the database.
func restoreFrom(t *testing.T, c Capture, path string) {
	t.Helper()
	whole, err := ReplayCapture(t.Context(), c, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(whole, path); err != nil {
		t.Fatal(err)
	}
}

// Frames of a transaction that another connection has not committed are in the -wal, and so in the capture; SQLite
// does not play them back.
func TestAHalfWrittenTransactionIsNotReplayed(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("acknowledged"))
	other, err := sqlite3.Open("file:" + f.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, sql := range []string{"PRAGMA cache_size=2", "BEGIN IMMEDIATE"} {
		if err := other.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	before := sizeAt(t, f.walPath)
	for i := range 50 {
		if err := other.Exec(fmt.Sprintf("INSERT INTO rows (uid, body) VALUES ('half %d', hex(randomblob(4000)))", i)); err != nil {
			t.Fatal(err)
		}
	}
	if sizeAt(t, f.walPath) == before {
		t.Fatal("nothing of the transaction is in the -wal: this test proves nothing")
	}
	if err := os.Remove(f.walPath); err != nil {
		t.Fatal(err)
	}
	c, err := f.Capture(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := replayed(t, c); !slices.Equal(got, []string{"acknowledged"}) {
		t.Errorf("replayed: %q", got)
	}
}

func sizeAt(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// The mapping is gone together with the name of the -wal: the read transaction of the capture faults.
func TestALostWALIsCapturedWithoutItsIndexToo(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, testOptions(t))
	lose(t, f)
	if err := os.Truncate(f.shmPath, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), insert("refused")); ClassOf(err) != LostWAL {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	c := wantCapturesOf(t, f.Path(), 1)[0]
	if got := replayed(t, c); !slices.Equal(got, []string{"acknowledged"}) || !strings.Contains(c.Manifest.Note, "without a read transaction") {
		t.Errorf("%q, %+v", got, c.Manifest)
	}
}

// A reader meets the fault and its connection is given up; what it held of the lost files is kept for the capture.
func TestAConnectionThatIsGivenUpLeavesItsLostFilesToTheCapture(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	f := mustOpen(t, o)
	lose(t, f)
	f.writer.submit(t.Context(), &request{op: Op{Label: "test"}, deadline: f.deadline(t.Context(), 0), visit: func(c *Conn) error {
		f.bury(c, errors.New("as after a fault"))
		f.writer.conn = nil
		return nil
	}})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := replayed(t, wantCapturesOf(t, o.Path, 1)[0]); !slices.Equal(got, []string{"acknowledged"}) {
		t.Errorf("%q", got)
	}
}

func TestACaptureThatWasTouchedIsNotReplayed(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, testOptions(t))
	lose(t, f)
	c, err := f.Capture(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wal := filepath.Join(c.Dir, c.Manifest.WAL.File)
	data, err := os.ReadFile(wal)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(wal, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReplayCapture(t.Context(), c, t.TempDir()); ClassOf(err) != Corrupt || !problem.Is(err, problem.Damaged) {
		t.Errorf("got %v", err)
	}
}

func TestDamageIsRememberedForThePathUntilTheFileIsWell(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	f, g := mustOpen(t, o), mustOpen(t, o)
	mustWrite(t, f, insert("a"))
	damage := Op{Label: "meets damage", Do: func(*Tx) error { return sqlite3.CORRUPT }}
	if err := f.Write(t.Context(), damage); ClassOf(err) != Corrupt {
		t.Fatal(err)
	}
	if err := g.Write(t.Context(), insert("b")); ClassOf(err) != Corrupt || g.Reason() != ReasonCorrupt {
		t.Errorf("the other handle: %v", err)
	}
	whole := mustOpen(t, o) // verified: it was no damage of the file
	mustWrite(t, whole, insert("c"))
	if f.Reason() != Healthy {
		t.Errorf("reason: %q", f.Reason())
	}
	if err := f.Write(t.Context(), damage); ClassOf(err) != Corrupt || whole.Reason() != ReasonCorrupt {
		t.Fatal(err)
	}
	if err := ClearDamage(o.Path); err != nil || whole.Reason() != Healthy {
		t.Errorf("cleared: %v, %q", err, whole.Reason())
	}
}
