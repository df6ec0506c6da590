package sqlite

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

func TestADatabaseWhoseWALLivesOnDeletedIsNotOpenedBesideIt(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	f := mustOpen(t, o)
	mustWrite(t, f, insert("in the deleted file"))
	if err := os.Remove(f.Path() + "-wal"); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), o)
	if ClassOf(err) != LostWAL || !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(f.Path() + "-wal"); err == nil {
		t.Error("a -wal was made anew")
	}
	f.Close()
	g := mustOpen(t, o) // the holder is gone
	mustWrite(t, g, insert("later"))
}

func TestADatabaseWithoutSidecarsAndHoldersOpens(t *testing.T) {
	o := testOptions(t)
	f := mustOpen(t, o)
	mustWrite(t, f, insert("a"))
	if _, err := f.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, s := range []string{"-wal", "-shm"} {
		if err := os.Remove(f.Path() + s); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, mustOpen(t, o)); n != 1 {
		t.Errorf("rows = %d", n)
	}
}
