package sqlite

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if childMain() || puppetMain() || callsMain() {
		return
	}
	flag.Set("rapid.checks", "20") // each one syncs the disk some dozens of times; the command line overrides it
	flag.Set("test.parallel", "6") // they wait for the disk, or for other processes, more than they work
	goleak.VerifyTestMain(m)
}

// testSchema is a small table with everything an append touches.
const testSchema = `CREATE TABLE rows (id INTEGER PRIMARY KEY AUTOINCREMENT, uid TEXT NOT NULL UNIQUE, session TEXT NOT NULL DEFAULT '', body TEXT NOT NULL DEFAULT '') STRICT;
CREATE INDEX rows_session ON rows (session, id);`

func stale(c *Conn) (bool, error) {
	var v int
	_, err := c.Row("PRAGMA user_version", nil, &v)
	return v < 1, err
}

func migrate(tx *Tx) error { return tx.Script(testSchema + "PRAGMA user_version=1;") }

func testOptions(t testing.TB) Options {
	return Options{
		Path: filepath.Join(t.TempDir(), "test.db"), Label: "test.db", Create: true,
		Stale: stale, Migrate: migrate, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

func mustOpen(t testing.TB, o Options) *File {
	t.Helper()
	f, err := Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return f
}

func insert(uid string) Op {
	return Op{Label: "insert " + uid, Do: func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO rows (uid) VALUES (?)", uid)
		return err
	}, Done: func(c *Conn) (bool, error) {
		return c.Row("SELECT 1 FROM rows WHERE uid = ?", []any{uid}, new(int))
	}}
}

func mustWrite(t testing.TB, f *File, op Op) {
	t.Helper()
	if err := f.Write(context.Background(), op); err != nil {
		t.Fatalf("%s: %v", op.Label, err)
	}
}

func count(t testing.TB, f *File) int {
	t.Helper()
	var n int
	err := f.Read(context.Background(), func(c *Conn) error {
		_, err := c.Row("SELECT count(*) FROM rows", nil, &n)
		return err
	})
	if err != nil {
		t.Fatalf("count rows: %v", err)
	}
	return n
}

func TestWrittenRowsAreReadByEverybodyAndSurviveAReopen(t *testing.T) {
	o := testOptions(t)
	f := mustOpen(t, o)
	mustWrite(t, f, insert("a"))
	if n := count(t, f); n != 1 {
		t.Fatalf("rows = %d, want 1", n)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	o.Create = false
	g := mustOpen(t, o)
	if n := count(t, g); n != 1 {
		t.Fatalf("rows after reopen = %d, want 1", n)
	}
	if got := g.Journal(); got.Mode != "wal" {
		t.Fatalf("journal = %+v", got)
	}
}

func TestOneFailingOperationDoesNotCostItsBatch(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("taken"))
	var wg sync.WaitGroup
	errs := make([]error, 40)
	for i := range errs {
		wg.Go(func() {
			uid := fmt.Sprint("row", i)
			if i%4 == 0 {
				uid = "taken"
			}
			errs[i] = f.Write(context.Background(), insert(uid))
		})
	}
	wg.Wait()
	for i, err := range errs {
		if i%4 == 0 && ClassOf(err) != Constraint {
			t.Errorf("op %d: %v, want a constraint", i, err)
		}
		if i%4 != 0 && err != nil {
			t.Errorf("op %d: %v", i, err)
		}
	}
	if n := count(t, f); n != 31 {
		t.Errorf("rows = %d, want 31", n)
	}
}

func TestTheCallersOwnErrorComesBackUnchanged(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	mine := errors.New("mine")
	err := f.Write(t.Context(), Op{Label: "mine", Do: func(tx *Tx) error {
		tx.Exec("INSERT INTO rows (uid) VALUES ('x')")
		return mine
	}})
	if !errors.Is(err, mine) || err.Error() != "mine" {
		t.Fatalf("got %v", err)
	}
	if n := count(t, f); n != 0 {
		t.Fatalf("rows = %d after a failed operation", n)
	}
}

func TestACallerThatLeavesBeforeItsTurnLeavesNothingBehind(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	begun, hold := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- f.Write(context.Background(), Op{Label: "slow", Do: func(*Tx) error { close(begun); <-hold; return nil }})
	}()
	<-begun
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("client gone")
	go func() {
		waitUntil(t, func() bool { return len(f.writer.queue) == 1 })
		cancel(gone)
	}()
	err := f.Write(ctx, insert("late"))
	if ClassOf(err) != Interrupted || !errors.Is(err, gone) {
		t.Errorf("got %v, want interrupted", err)
	}
	close(hold)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	mustWrite(t, f, Op{Label: "behind it", Do: func(*Tx) error { return nil }})
	if n := count(t, f); n != 0 {
		t.Fatalf("rows = %d", n)
	}
}

var seedFlag = flag.Uint64("seed", 20261129, "what the tests with random faults begin with")

// testSeed gives the seed of a test with random faults; its failures print it, and -args -seed N replays it.
var whole = flag.Bool("all", false, "cut and fail at each moment, not at every few (make whole)")

// every is how far the moments that are tried lie apart: k, and 1 in a whole run.
func every(k int) int {
	if *whole {
		return 1
	}
	return k
}

func testSeed(t testing.TB) uint64 {
	t.Helper()
	return *seedFlag
}
