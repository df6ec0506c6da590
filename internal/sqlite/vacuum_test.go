package sqlite

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/peer"
	"gatewayd/internal/problem"
)

func TestVacuumShrinksTheFileAndGivesItBack(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"wal", "delete"} {
		t.Run(mode, func(t *testing.T) {
			o := testOptions(t)
			o.Journal.Mode = mode
			f := mustOpen(t, o)
			mustWrite(t, f, fill(3000))
			mustWrite(t, f, Op{Label: "delete", Do: func(tx *Tx) error { _, err := tx.Exec("DELETE FROM rows WHERE id % 10"); return err }})
			if n := count(t, f); n != 300 { // through a reader that stays idle
				t.Fatalf("rows = %d", n)
			}
			if _, err := f.Stamp(); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Checkpoint(t.Context()); err != nil {
				t.Fatal(err)
			}
			v, err := f.Vacuum(t.Context())
			if err != nil || v.After >= v.Before/2 {
				t.Fatalf("vacuum: %+v, %v", v, err)
			}
			if mode == "wal" && size(t, f.Path()+"-wal") != 0 {
				t.Error("the -wal was not truncated")
			}
			mustWrite(t, f, insert("after"))
			if n := count(t, f); n != 301 {
				t.Errorf("rows = %d", n)
			}
			peer := rawConn(t, f.Path())
			if err := peer.Exec("INSERT INTO rows (uid) VALUES ('peer')"); err != nil {
				t.Errorf("a peer after the vacuum: %v", err)
			}
		})
	}
}

func TestVacuumRefusesWhileAnotherHandleOfThisProcessIsThere(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"wal", "delete"} {
		o := testOptions(t)
		o.Journal.Mode = mode
		f := mustOpen(t, o)
		peer := rawConn(t, f.Path())
		if err := peer.Exec("SELECT count(*) FROM rows"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := f.Vacuum(ctx); ClassOf(err) != Busy || !problem.Is(err, problem.Busy) {
			t.Errorf("%s: %v", mode, err)
		}
		cancel()
		mustWrite(t, f, insert("goes on"))
	}
}

// A process may have a database in rollback mode open and hold no lock at all. It is seen all the same.
func TestMaintenanceThatNeedsAFileAloneRefusesAProcessThatHoldsIt(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	o.Journal.Mode = "delete"
	f := mustOpen(t, o)
	mustWrite(t, f, insert("a"))
	release := holdOpen(t, f.Path())
	if _, err := f.Vacuum(t.Context()); ClassOf(err) != Busy || !problem.Is(err, problem.Busy) || !strings.Contains(err.Error(), "sh") {
		t.Errorf("vacuum: %v", err)
	}
	release()
	if _, err := f.Vacuum(t.Context()); err != nil {
		t.Errorf("vacuum once it was gone: %v", err)
	}
}

// holdOpen starts a process that has a file open and nothing else, until release.
func holdOpen(t testing.TB, path string) (release func()) {
	t.Helper()
	p := peer.Start(t, exec.Command("sh", "-c", `exec 3<>"$1"; echo held; read end`, "sh", path))
	p.Want("held")
	return func() { _ = p.End() }
}

// The pages of a damaged database are evidence: a vacuum would write the file anew without a word about what it lost.
func TestVacuumLeavesADamagedFileAsItIs(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, fill(3000))
	if _, err := f.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	scribble(t, f.Path(), leafOf(t, f, "rows_session"))
	f.DropIdle() // what it has in memory is whole
	err := f.Read(t.Context(), func(c *Conn) error { return c.mustBeWhole() })
	if ClassOf(err) != Corrupt || f.Quarantine() == nil {
		t.Fatalf("the damage was not noticed: %v", err)
	}
	_, before, _ := digest(f.Path())
	if _, err := f.Vacuum(t.Context()); ClassOf(err) != Corrupt || !strings.Contains(err.Error(), "refuses vacuum") {
		t.Errorf("vacuum: %v", err)
	}
	if _, after, _ := digest(f.Path()); after != before {
		t.Error("the damaged file was changed")
	}
}
