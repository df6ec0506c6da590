package sqlite

import (
	"log/slog"
	"os"
	"testing"

	"gatewayd/internal/problem"
)

// loseLog makes a database whose last row is in the captured -wal alone, and closes it.
func loseLog(t *testing.T, parts ...string) (Options, Capture) {
	t.Helper()
	o := testOptions(t)
	f := mustOpen(t, o)
	mustWrite(t, f, insert("checkpointed"))
	if _, err := f.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, f, insert("in the wal"))
	if err := removeAll(f.Path(), parts...); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return o, wantCapture(t, f)
}

func reinstate(t *testing.T, o Options) error {
	t.Helper()
	return Reinstate(t.Context(), o.Path, "board", slog.New(slog.DiscardHandler))
}

func TestALostLogIsWrittenBackWhereNobodyWroteSince(t *testing.T) {
	t.Parallel()
	o, capture := loseLog(t, "-wal", "-shm")
	left := o.Path + reinstateMark + "left by a kill"
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	before, err := statInode(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := reinstate(t, o); err != nil {
		t.Fatal(err)
	}
	if !capture.Salvaged() {
		t.Error("the capture is not marked")
	}
	if _, err := os.Lstat(left); err == nil {
		t.Error("what a killed one left is still there")
	}
	if after, err := statInode(o.Path); err != nil || after != before {
		t.Errorf("the file is another one: %v, %v, %v", before, after, err)
	}
	f := mustOpen(t, o)
	if n := count(t, f); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
	if f.Journal().Mode != "wal" {
		t.Errorf("journal mode %s", f.Journal().Mode)
	}
	mustWrite(t, f, insert("later"))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := reinstate(t, o); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if n := count(t, mustOpen(t, o)); n != 3 {
		t.Errorf("%d rows after a second time, want 3", n)
	}
}

// Whoever wrote the database without the lost rows may have used their ids: nothing is written over theirs.
func TestALostLogIsNotWrittenOverLaterRows(t *testing.T) {
	t.Parallel()
	for name, settle := range map[string]bool{"in the -wal": false, "in the database": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, capture := loseLog(t, "-wal", "-shm")
			f := mustOpen(t, o)
			mustWrite(t, f, insert("of somebody else"))
			if settle {
				if _, err := f.Checkpoint(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if settle {
				if err := os.Truncate(o.Path+"-wal", 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := reinstate(t, o); !problem.Is(err, problem.Conflict) {
				t.Errorf("got %v, want a conflict", err)
			}
			if capture.Salvaged() {
				t.Error("the capture is marked")
			}
			if n := count(t, mustOpen(t, o)); n != 2 {
				t.Errorf("%d rows, want 2", n)
			}
		})
	}
}

// A -wal that is still in its place is played in by whoever opens the database next.
func TestALogThatIsStillThereIsLeftToTheNextOpen(t *testing.T) {
	t.Parallel()
	o, capture := loseLog(t, "-shm")
	if err := reinstate(t, o); err != nil || capture.Salvaged() {
		t.Errorf("%v, marked %t", err, capture.Salvaged())
	}
	if n := count(t, mustOpen(t, o)); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

func TestALostLogIsNotWrittenBackUnderAHolder(t *testing.T) {
	t.Parallel()
	o, capture := loseLog(t, "-wal", "-shm")
	f := mustOpen(t, o)
	if err := reinstate(t, o); !problem.Is(err, problem.Busy) || capture.Salvaged() {
		t.Errorf("%v, marked %t", err, capture.Salvaged())
	}
	if n := count(t, f); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}
