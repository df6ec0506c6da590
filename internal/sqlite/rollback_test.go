package sqlite

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

// rollbackPair is a database in rollback mode with five rows, open here and in another process.
func rollbackPair(t *testing.T, log *slog.Logger) (Options, *File, *puppet) {
	t.Helper()
	o := testOptions(t)
	if log != nil {
		o.Log = log
	}
	o.Journal.Mode = "delete"
	f := mustOpen(t, o)
	for i := range 5 { // so that its change counter is not that of another new database
		mustWrite(t, f, insert(fmt.Sprint("row ", i)))
	}
	o.Create = false
	return o, f, newPuppetIn(t, f.Path(), "delete")
}

var fiveRows = []string{"row 0", "row 1", "row 2", "row 3", "row 4"}

// wantNew holds that the database at the path is the one that was put there, whole.
func wantNew(t *testing.T, o Options, want ...string) {
	t.Helper()
	g := mustOpen(t, o)
	if got := uids(t, g); !slices.Equal(got[:min(len(want), len(got))], want) {
		t.Errorf("the new database holds %q", got)
	}
	err := g.Peek(context.Background(), func(c *Conn) error {
		verdict := ""
		_, err := c.Row("PRAGMA integrity_check", nil, &verdict)
		if verdict != "ok" {
			t.Errorf("integrity: %s", verdict)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

func TestAReplacedDatabaseIsNotCapturedInTheMiddleOfATransaction(t *testing.T) {
	t.Parallel()
	var log lockedBuilder
	_, f, p := rollbackPair(t, textLog(&log))
	p.must("half")
	replaceWith(t, f)
	done := make(chan error, 1)
	var c Capture
	go func() {
		var err error
		c, err = f.Capture(context.Background())
		done <- err
	}()
	waitUntil(t, func() bool {
		return len(done) > 0 || strings.Contains(log.String(), "capture waits")
	})
	if len(done) > 0 {
		t.Error("it was captured while a writer was at the pages")
	}
	p.must("finish")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := replayed(t, c); len(got) != 55 || !slices.Equal(got[:5], fiveRows) {
		t.Errorf("%d rows: %q", len(got), got)
	}
}

func TestWhatAKilledWriterLeftInAReplacedDatabaseIsUndoneBeforeItIsCaptured(t *testing.T) {
	t.Parallel()
	o, f, p := rollbackPair(t, nil)
	p.must("half")
	p.Kill()
	replaceWith(t, f)
	c, err := f.Capture(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := replayed(t, c); !slices.Equal(got, fiveRows) {
		t.Errorf("replayed: %q", got)
	}
	o.Journal.Mode = ""
	wantNew(t, o, "of the other")
}

// The copy that takes its place is of the moment before the transaction: the journal fits both, and a wrong choice
// would make a sound database of wrong pages.
func TestACaptureThatMayHoldHalfATransactionIsNotReplayed(t *testing.T) {
	t.Parallel()
	_, f, p := rollbackPair(t, nil)
	copied := copyOf(t, f.Path())
	p.must("half")
	p.Kill()
	if err := os.Rename(copied, f.Path()); err != nil {
		t.Fatal(err)
	}
	c, err := f.Capture(t.Context())
	if err != nil || !c.Manifest.Unfinished {
		t.Fatalf("%+v, %v", c.Manifest, err)
	}
	if _, err := ReplayCapture(t.Context(), c, t.TempDir()); !problem.Is(err, problem.Damaged) {
		t.Errorf("replay: %v", err)
	}
	if !hasBytes(f.Path() + "-journal") {
		t.Error("a journal that may be the new database's was taken away")
	}
}

func TestAReplacedDatabaseTakesNoJournalOfTheNewOne(t *testing.T) {
	t.Parallel()
	o, f, p := rollbackPair(t, nil)
	copied := copyOf(t, f.Path())
	mustWrite(t, f, insert("after the copy"))
	if err := os.Rename(copied, f.Path()); err != nil {
		t.Fatal(err)
	}
	p.must("close")
	p.must("half") // in the new one
	err := f.Read(t.Context(), func(c *Conn) error { _, err := c.Row("SELECT 1 FROM rows", nil, new(int)); return err })
	if ClassOf(err) != Replaced || f.Reason() != ReasonReplaced {
		t.Errorf("read: %v, %q", err, f.Reason())
	}
	c, err := f.Capture(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !hasBytes(f.Path() + "-journal") {
		t.Error("the journal of a living transaction is gone")
	}
	if got := replayed(t, c); !slices.Equal(got, append(slices.Clone(fiveRows), "after the copy")) {
		t.Errorf("replayed: %q", got)
	}
	p.must("finish")
	wantNew(t, o, append(slices.Clone(fiveRows), "half 0")...)
}

func TestANewDatabaseIsNotOpenedBesideAJournalOfTheOldOne(t *testing.T) {
	t.Parallel()
	o, f, p := rollbackPair(t, nil)
	p.must("half")
	replaceWith(t, f)
	o.Patience = -1
	if g, err := Open(t.Context(), o); ClassOf(err) != Busy {
		if err == nil {
			g.Close()
		}
		t.Errorf("opened: %v", err)
	}
	p.must("finish")
	wantNew(t, o, "of the other")
}

// SQLite looks for itself whether its file was moved, when it makes the journal.
func TestAReplacementThatSQLiteMeetsInATransactionIsTheReasonAtOnce(t *testing.T) {
	t.Parallel()
	_, f, _ := rollbackPair(t, nil)
	err := f.Write(t.Context(), Op{Label: "replaced under it", Do: func(tx *Tx) error {
		if err := os.Rename(f.Path(), f.Path()+".aside"); err != nil {
			return err
		}
		_, err := tx.Exec("INSERT INTO rows (uid) VALUES ('late')")
		return err
	}})
	if ClassOf(err) != Replaced || f.Reason() != ReasonReplaced {
		t.Errorf("%v, reason %q", err, f.Reason())
	}
}
