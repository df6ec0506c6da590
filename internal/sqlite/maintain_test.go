package sqlite

import (
	"errors"
	"os"
	"testing"

	"gatewayd/internal/problem"
)

// quarantined is a handle on a file that was replaced under it.
func quarantined(t testing.TB) *File {
	t.Helper()
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("before"))
	if err := errors.Join(os.Rename(f.Path(), f.Path()+".away"), os.WriteFile(f.Path(), []byte("another"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), insert("after")); ClassOf(err) != Replaced {
		t.Fatalf("write to a replaced file: %v", err)
	}
	return f
}

func TestMaintenanceRefusesAHandleInQuarantineAndNamesItself(t *testing.T) {
	f := quarantined(t)
	_, checkpoint := f.Checkpoint(t.Context())
	_, vacuum := f.Vacuum(t.Context())
	_, backup := f.Backup(t.Context(), backupOptions(t))
	ran := false
	for what, err := range map[Operation]error{
		OpCheckpoint: checkpoint,
		OpOptimize:   f.Optimize(t.Context()),
		OpVacuum:     vacuum,
		OpBackup:     backup, OpSnapshot: f.Snapshot(t.Context(), f.Path()+".copy"),
		OpPrune: f.Maintain(t.Context(), OpPrune, Op{Label: "prune", Do: func(*Tx) error { ran = true; return nil }}),
	} {
		if ClassOf(err) != Replaced || !problem.Is(err, problem.Damaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if ran {
		t.Error("an operation ran")
	}
}

func TestOptimizeKeepsTheRowsAndWritesStatistics(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, fill(2000))
	if err := f.Optimize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, f); n != 2000 {
		t.Errorf("rows = %d", n)
	}
}
