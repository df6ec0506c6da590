package worker

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheOutputOfARunBeginsWhereTheRunBegan(t *testing.T) {
	l := newLocal(t)
	job := commandJob(t, l, "sh", "-c", `echo "words of run $GATEWAYD_KANBAN_RUN_ID"`)
	for n, want := range []string{"words of run 1\n", "words of run 2\n"} {
		job.Run = int64(n + 1)
		run, err := l.Launch(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		waitExit(t, run)
		if got := run.Output(); got != want {
			t.Errorf("run %d said %q", n+1, got)
		}
		later, err := (&Local{Reaper: l.Reaper, RunsDir: l.RunsDir}).Adopt(run.ID())
		if err != nil || later.Output() != want {
			t.Errorf("after a restart run %d said %q, %v", n+1, later.Output(), err)
		}
	}
	if log, _ := os.ReadFile(job.LogPath); string(log) != "words of run 1\nwords of run 2\n" {
		t.Errorf("the log holds %q", log)
	}
}

func TestARotatedLogIsAllOfTheRunThatRotatedIt(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("earlier\n")
	if err := outputAt(log).save(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	write("words of this run\n")
	if got := outputIn(dir).tail(); got != "words of this run\n" {
		t.Errorf("after a rotation: %q", got)
	}
	if got := outputIn(t.TempDir()).tail(); got != "" {
		t.Errorf("a run without a note said %q", got)
	}
}
