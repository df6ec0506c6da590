package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/problem"
)

func TestWaitingWritesShareOneTransaction(t *testing.T) {
	o := testOptions(t)
	commits := 0
	o.seams.commit = func(commit func() error) error { commits++; return commit() }
	f := mustOpen(t, o)
	for _, err := range oneBatch(t, f, 50, func(i int) Op { return insert(fmt.Sprint(i)) }) {
		if err != nil {
			t.Error(err)
		}
	}
	if n := count(t, f); n != 50 || commits != 1 {
		t.Errorf("%d rows in %d commits, want 50 in 1", n, commits)
	}
}

func TestAWriteOfSomebodyWhoHasLeftIsNeverBegun(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	gone, leave := context.WithCancel(t.Context())
	leave()
	for i := range 40 { // the queue has room, so that by chance alone every other one would get in
		r := &request{op: insert(fmt.Sprint(i)), ctx: gone, answer: make(chan error, 1)}
		if err := f.writer.enqueue(gone, r); ClassOf(err) != Interrupted {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	if n := count(t, f); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

// lock holds the write lock from outside until it is told to stop.
func lock(t testing.TB, path string) (release func()) {
	t.Helper()
	db, err := OpenBare(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		if err := errors.Join(db.Exec("ROLLBACK"), db.Close()); err != nil {
			t.Error(err)
		}
	})
}

func TestAWriteWaitsForALockWithinItsPatience(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	release := lock(t, f.Path())
	defer release()

	op := insert("impatient")
	op.Patience = 30 * time.Millisecond
	start := time.Now()
	err := f.Write(t.Context(), op)
	if ClassOf(err) != Busy || !problem.Is(err, problem.Busy) {
		t.Errorf("got %v, want busy", err)
	}
	if took := time.Since(start); took > busyTimeout/2 {
		t.Errorf("took %s for a patience of 30 ms", took)
	}

	done := make(chan error, 1)
	go func() { done <- f.Write(context.Background(), insert("patient")) }()
	waitUntil(t, func() bool { return f.writer.tries.Load() > 2 })
	release()
	if err := <-done; err != nil {
		t.Errorf("patient write: %v", err)
	}
	if n := count(t, f); n != 1 {
		t.Errorf("rows = %d", n)
	}
}

func TestAWaitForALockNeverOutlastsTheContext(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	defer lock(t, f.Path())()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := f.Write(ctx, insert("late"))
	if c := ClassOf(err); c != Interrupted && c != Busy {
		t.Errorf("got %v", err)
	}
	if took := time.Since(start); took > busyTimeout/2 {
		t.Errorf("took %s for a context of 50 ms", took)
	}
}

func TestARollbackNeverHidesTheFirstError(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	first := errors.New("the first error")
	// The operation ends the transaction behind the writer's back, so that undoing has nothing to undo.
	err := f.Write(t.Context(), Op{Label: "sabotage", Do: func(tx *Tx) error {
		if err := tx.db.Exec("ROLLBACK"); err != nil {
			return err
		}
		return first
	}})
	if !errors.Is(err, first) {
		t.Errorf("got %v", err)
	}
	mustWrite(t, f, insert("goes on"))
}

// An operation that looks away from an error that ended the transaction must not be told that it is stored.
func TestALostTransactionIsNeverAcknowledged(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	err := f.Write(t.Context(), Op{Label: "looks away", Do: func(tx *Tx) error {
		tx.Exec("INSERT INTO rows (uid) VALUES ('lost')")
		tx.db.Exec("ROLLBACK")
		return nil
	}})
	if ClassOf(err) != IO {
		t.Errorf("got %v", err)
	}
	if n := count(t, f); n != 0 {
		t.Errorf("rows = %d", n)
	}
}

// A full disk or an I/O error inside a statement makes SQLite roll back everything. The neighbours run again.
func TestALostTransactionIsRunAgainForTheOthers(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	errs := oneBatch(t, f, 9, func(i int) Op {
		if i != 4 {
			return insert(fmt.Sprint("row", i))
		}
		return Op{Label: "culprit", Do: func(tx *Tx) error {
			return errors.Join(sqlite3.IOERR_WRITE, tx.db.Exec("ROLLBACK"))
		}}
	})
	for i, err := range errs {
		if i == 4 && ClassOf(err) != IO {
			t.Errorf("culprit: %v", err)
		}
		if i != 4 && err != nil {
			t.Errorf("op %d: %v", i, err)
		}
	}
	if n := count(t, f); n != 8 {
		t.Errorf("rows = %d, want 8", n)
	}
}

func TestABusyCommitIsAskedForAgainAndTheOperationRunsOnce(t *testing.T) {
	o := testOptions(t)
	fails := 3
	o.seams.commit = func(commit func() error) error {
		if fails--; fails >= 0 {
			return sqlite3.BUSY
		}
		return commit()
	}
	f := mustOpen(t, o)
	runs := 0
	op := insert("once")
	do := op.Do
	op.Do = func(tx *Tx) error { runs++; return do(tx) }
	mustWrite(t, f, op)
	if n := count(t, f); n != 1 || runs != 1 {
		t.Errorf("%d rows after %d runs, want 1 after 1", n, runs)
	}
}

func TestABusyCommitGivesUpCleanlyWhenPatienceEnds(t *testing.T) {
	o := testOptions(t)
	stuck := true
	o.seams.commit = func(commit func() error) error {
		if stuck {
			return sqlite3.BUSY
		}
		return commit()
	}
	f := mustOpen(t, o)
	op := insert("never")
	op.Patience = 50 * time.Millisecond
	if err := f.Write(t.Context(), op); ClassOf(err) != Busy {
		t.Errorf("got %v", err)
	}
	stuck = false
	mustWrite(t, f, insert("later"))
	if n := count(t, f); n != 1 {
		t.Errorf("rows = %d, want 1", n)
	}
}

func TestACommitOfUnknownFateIsResolvedByAskingForTheRow(t *testing.T) {
	for _, tc := range []struct {
		name   string
		stored bool // the COMMIT did its work before it failed
		ask    bool // the operation can be asked for
		fails  int  // so many COMMITs fail
		known  bool
	}{
		{"stored", true, true, 1, true},
		{"not stored", false, true, 1, true},
		{"stored, and no sync succeeds", true, true, 2, false},
		{"not stored, and no sync succeeds", false, true, 2, false},
		{"nobody can tell", true, false, 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := testOptions(t)
			fails := 0
			o.seams.commit = func(commit func() error) error {
				if fails--; fails < 0 {
					return commit()
				}
				if tc.stored {
					commit()
				}
				return sqlite3.IOERR_FSYNC
			}
			o.seams.full = func(string) bool { return false }
			o.Migrate = func(tx *Tx) error { return tx.Script(ledgerSchema) } // which takes a row twice
			f := mustOpen(t, o)
			fails = tc.fails
			op := enter("a", 1)
			if !tc.ask {
				op.Done = nil
			}
			err := f.Write(t.Context(), op)
			if (err == nil) != tc.known || err != nil && !strings.Contains(err.Error(), "is unknown") {
				t.Errorf("got %v", err)
			}
			fails = 0
			mustWrite(t, f, enter("b", 1))
			want := []string{"a", "b"}
			if !tc.known && !tc.stored {
				want = want[1:]
			}
			err = f.Read(t.Context(), func(c *Conn) error {
				uids, err := ledger(c)
				if !slices.Equal(uids, want) {
					t.Errorf("rows %q, want %q", uids, want)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestACommitThatCouldNotBeWrittenIsKnownNotToBeStored(t *testing.T) {
	o := testOptions(t)
	o.seams.commit = func(func() error) error { return sqlite3.IOERR_WRITE }
	o.seams.full = func(string) bool { return true }
	f := mustOpen(t, o)
	op := insert("a")
	op.Done = nil
	err := f.Write(t.Context(), op)
	if ClassOf(err) != NoSpace || !strings.Contains(err.Error(), fateNone) {
		t.Errorf("got %v", err)
	}
	if n := count(t, f); n != 0 {
		t.Errorf("rows = %d", n)
	}
}

func TestADeferredConstraintCostsOnlyTheOneWhoBrokeIt(t *testing.T) {
	o := testOptions(t)
	o.Migrate = func(tx *Tx) error {
		return errors.Join(migrate(tx), tx.Script("CREATE TABLE child (row INTEGER REFERENCES rows (id) DEFERRABLE INITIALLY DEFERRED) STRICT"))
	}
	f := mustOpen(t, o)
	errs := oneBatch(t, f, 5, func(i int) Op {
		if i != 2 {
			return insert(fmt.Sprint("row", i))
		}
		return Op{Label: "orphan", Do: func(tx *Tx) error {
			_, err := tx.Exec("INSERT INTO child (row) VALUES (999)")
			return err
		}}
	})
	for i, err := range errs {
		if i == 2 && ClassOf(err) != Constraint {
			t.Errorf("orphan: %v", err)
		}
		if i != 2 && err != nil {
			t.Errorf("op %d: %v", i, err)
		}
	}
}

func TestTransactionWordsAreRefused(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	for _, sql := range []string{"COMMIT", " -- note\nrollback", "/* x */ BEGIN", "END", "savepoint a", "RELEASE a", "VACUUM", "ATTACH 'x' AS y", "DETACH y", ";COMMIT"} {
		for name, run := range map[string]func(*Tx) error{
			"exec":   func(tx *Tx) error { _, err := tx.Exec(sql); return err },
			"script": func(tx *Tx) error { return tx.Script(sql) },
			"row":    func(tx *Tx) error { _, err := tx.Row(sql, nil); return err },
		} {
			if err := f.Write(t.Context(), Op{Label: name, Do: run}); !errors.Is(err, errTransactionWord) {
				t.Errorf("%s %q: %v", name, sql, err)
			}
		}
	}
}

// The whole File lives in fake time, so that an hour of patience is a moment.
func TestPatienceIsSpentInFakeTimeToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions(t)
		f, err := Open(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		release := lock(t, f.Path())
		start := time.Now()
		op := insert("a")
		op.Patience = Transcript
		if err := f.Write(context.Background(), op); ClassOf(err) != Busy {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took < Transcript || took > Transcript+2*time.Second {
			t.Errorf("waited %s for a patience of %s", took, Transcript)
		}
		release()
		if err := f.Write(context.Background(), op); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

// What a failing operation had written before it failed must not be stored with its neighbours' rows.
func TestAFailedOperationsOwnRowsAreUndone(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	mine := errors.New("mine")
	errs := oneBatch(t, f, 6, func(i int) Op {
		op := insert(fmt.Sprint("row", i))
		if i != 3 {
			return op
		}
		return Op{Label: "half", Do: func(tx *Tx) error { return errors.Join(op.Do(tx), mine) }}
	})
	for i, err := range errs {
		if (i == 3) != errors.Is(err, mine) || (i != 3 && err != nil) {
			t.Errorf("op %d: %v", i, err)
		}
	}
	if n := count(t, f); n != 5 {
		t.Errorf("rows = %d, want 5", n)
	}
}

// Nothing has run yet, so an I/O error of BEGIN is worth one more try; a second one is the disk's word.
func TestAnIOErrorOfBeginIsTriedOnceMore(t *testing.T) {
	o := testOptions(t)
	fails, tries := 0, 0
	o.seams.begin = func(begin func() error) error {
		if tries++; tries <= fails {
			return sqlite3.IOERR_READ
		}
		return begin()
	}
	f := mustOpen(t, o)
	fails, tries = 1, 0
	mustWrite(t, f, insert("a"))
	fails, tries = 9, 0
	if err := f.Write(t.Context(), insert("b")); ClassOf(err) != IO || tries != 2 {
		t.Errorf("%v after %d tries", err, tries)
	}
}

// A fault before COMMIT means that nothing is stored, so the operation runs again on a fresh connection.
func TestAFaultInAnOperationIsTriedOnceMore(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	runs := 0
	op := insert("a")
	do := op.Do
	op.Do = func(tx *Tx) error {
		if runs++; runs == 1 {
			panic(errors.New("sqlite3: out of memory"))
		}
		return do(tx)
	}
	mustWrite(t, f, op)
	if n := count(t, f); n != 1 || runs != 2 {
		t.Errorf("%d rows after %d runs", n, runs)
	}
}

// The operation loses its savepoint, so that undoing fails; what is reported is still why it failed.
func TestAFailedUndoNeverHidesTheFirstError(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	first := errors.New("the first error")
	err := f.Write(t.Context(), Op{Label: "sabotage", Do: func(tx *Tx) error {
		if _, err := tx.Exec("INSERT INTO rows (uid) VALUES ('half')"); err != nil {
			return err
		}
		return errors.Join(first, tx.db.Exec("RELEASE op"))
	}})
	if !errors.Is(err, first) {
		t.Errorf("got %v", err)
	}
	if n := count(t, f); n != 0 {
		t.Errorf("half an operation is stored")
	}
	mustWrite(t, f, insert("goes on"))
}
