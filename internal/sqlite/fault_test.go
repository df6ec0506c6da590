package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

func truncateShm(t testing.TB, f *File) {
	t.Helper()
	if err := os.Truncate(f.Path()+"-shm", 0); err != nil {
		t.Fatal(err)
	}
}

func TestATruncatedShmCostsAConnectionAndNoRow(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	for i := range 30 {
		mustWrite(t, f, insert(fmt.Sprint("row", i)))
		if n := count(t, f); n != i+1 {
			t.Fatalf("rows = %d, want %d", n, i+1)
		}
		truncateShm(t, f)
	}
	mustWrite(t, f, insert("last"))
	if n := count(t, f); n != 31 {
		t.Fatalf("rows = %d, want 31", n)
	}
	if n := f.lost.add(); n != 1 {
		t.Errorf("%d connections could not be freed", n-1)
	}
}

func TestAReadAfterATruncatedShmSucceedsOrFailsButDoesNotKill(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("a"))
	count(t, f)
	truncateShm(t, f)
	err := f.Read(t.Context(), func(c *Conn) error {
		_, err := c.Row("SELECT count(*) FROM rows", nil, new(int))
		return err
	})
	if err != nil && ClassOf(err) != IO {
		t.Fatalf("class = %s: %v", ClassOf(err), err)
	}
	if n := count(t, f); n != 1 {
		t.Fatalf("rows = %d", n)
	}
}

// A fault while the library holds a statement nobody can finalize: close is refused, and without the unlock the
// write lock would stay held for every process until this one ends.
func TestARefusedCloseStillGivesTheLocksBack(t *testing.T) {
	o := testOptions(t)
	f := mustOpen(t, o)
	mustWrite(t, f, insert("a"))
	// More than the page cache holds, so that pages spill into the -wal, and its index faults, inside Exec.
	const spill = `INSERT INTO rows (uid, body) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 8000)
		SELECT 'big' || i, hex(randomblob(300)) FROM n`
	faulted := 0
	err := f.Write(t.Context(), Op{Label: "fault", Do: func(tx *Tx) error {
		faulted++
		truncateShm(t, f)
		return tx.db.Exec(spill)
	}})
	if err == nil || faulted != 2 || f.lost.add() != 3 {
		t.Fatalf("want two faults that cost a connection each: %d runs, %v", faulted, err)
	}
	mustWrite(t, f, insert("b"))
	db, err := OpenBare(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Exec("INSERT INTO rows (uid) VALUES ('peer')"); err != nil {
		t.Fatalf("a peer cannot write: %v", err)
	}
}

func TestAPanicInAnOperationFailsItAloneAndIsLogged(t *testing.T) {
	var log lockedBuilder
	o := testOptions(t)
	o.Log = textLog(&log)
	f := mustOpen(t, o)
	for name, bug := range map[string]func(){
		"nil dereference": func() { var r *Row; _ = r.s.ReadOnly() },
		"out of range":    func() { _ = []int{}[len(f.Path())] },
		"plain":           func() { panic("boom") },
	} {
		var wg sync.WaitGroup
		wg.Go(func() {
			err := f.Write(context.Background(), Op{Label: name, Do: func(tx *Tx) error {
				if _, err := tx.Exec("INSERT INTO rows (uid) VALUES (?)", "half "+name); err != nil {
					return err
				}
				bug()
				return nil
			}})
			if err == nil || !strings.Contains(err.Error(), "has a bug") {
				t.Errorf("%s: got %v", name, err)
			}
		})
		wg.Go(func() {
			if err := f.Write(context.Background(), insert("beside "+name)); err != nil {
				t.Errorf("neighbour of %s: %v", name, err)
			}
		})
		wg.Wait()
		if !strings.Contains(log.String(), "operation panicked") {
			t.Errorf("%s was swallowed", name)
		}
	}
	if n := count(t, f); n != 3 {
		t.Errorf("rows = %d, want 3", n)
	}
}

func TestOnlyMemoryFaultsAreTurnedIntoErrors(t *testing.T) {
	defer func() {
		if p := recover(); p != "ours" {
			t.Errorf("recovered %v", p)
		}
	}()
	guard(func() error { panic("ours") })
}

func TestOutOfMemoryIsAFault(t *testing.T) {
	if f := asFault(errors.New("sqlite3: out of memory")); f == nil || ClassOf(f) != NoSpace {
		t.Errorf("got %v", f)
	}
	var r *Row
	func() {
		defer func() {
			if f := asFault(recover()); f != nil {
				t.Errorf("our own nil dereference passes as %v", f)
			}
		}()
		guard(func() error { _ = r.s.ReadOnly(); return nil })
	}()
}

func TestAFileThatKeepsLosingConnectionsGivesUp(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("a"))
	for range lostPerHour + 1 {
		f.lost.add()
	}
	truncateShm(t, f)
	if err := f.Write(t.Context(), insert("b")); ClassOf(err) != IO || !strings.Contains(err.Error(), "too many connections") {
		t.Errorf("got %v", err)
	}
}
