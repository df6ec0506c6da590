package sqlite

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestOpeningWaitsForALockWithinItsPatience(t *testing.T) {
	o := testOptions(t)
	o.Journal.Mode = "delete"
	mustOpen(t, o).Close()
	peer := rawConn(t, o.Path)
	if err := peer.Exec("BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	o.Patience = -1
	if _, err := Open(t.Context(), o); ClassOf(err) != Busy {
		t.Errorf("without patience: %v", err)
	}
	o.Patience = Transcript
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, o); ClassOf(err) != Busy && ClassOf(err) != Interrupted {
		t.Errorf("with a short context: %v", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		f, err := Open(context.Background(), o)
		if err != nil {
			t.Errorf("with patience: %v", err)
			return
		}
		f.Close()
	})
	if err := peer.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
}

// While we hold the database nobody can take it out of WAL or delete its sidecars.
func TestAForeignProcessCannotChangeTheJournalUnderUs(t *testing.T) {
	tool := cli(t)
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("a"))
	out, _ := exec.Command(tool, "-batch", f.Path(), "PRAGMA journal_mode=DELETE").CombinedOutput()
	if !strings.Contains(string(out), "wal") && !strings.Contains(string(out), "locked") {
		t.Errorf("sqlite3 says %q", out)
	}
	mustWrite(t, f, insert("b"))
	if got := runCLI(t, tool, f.Path(), "PRAGMA journal_mode; SELECT count(*) FROM rows"); got != "wal\n2" {
		t.Errorf("sqlite3 says %q", got)
	}
}

func TestTwoHandlesOfOneFileShareIt(t *testing.T) {
	for _, mode := range []string{"wal", "delete"} {
		o := testOptions(t)
		o.Journal.Mode, o.AutoCheckpoint, o.TornCheck = mode, 10, true
		files := []*File{mustOpen(t, o), mustOpen(t, o)}
		var wg sync.WaitGroup
		for i, f := range files {
			for g := range 3 {
				wg.Go(func() {
					for n := range 15 {
						if err := f.Write(context.Background(), insert(fmt.Sprint(i, g, n))); err != nil {
							t.Errorf("%s: %v", mode, err)
						}
						count(t, f)
					}
				})
			}
		}
		wg.Wait()
		if n := count(t, files[0]); n != 90 {
			t.Errorf("%s: rows = %d, want 90", mode, n)
		}
	}
}
