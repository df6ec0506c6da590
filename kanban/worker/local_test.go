package worker

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/reaper"
)

func TestMain(m *testing.M) {
	if slices.Contains(standIns, filepath.Base(os.Args[0])) {
		os.Exit(playStandIn())
	}
	reaper.Main()
	os.Exit(m.Run())
}

func newLocal(t *testing.T) *Local {
	t.Helper()
	r, err := reaper.New(reaper.Options{Dir: filepath.Join(t.TempDir(), "records"), Spares: -1, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return &Local{Reaper: r, RunsDir: t.TempDir(), Environ: config.Environ{"PATH=/usr/bin:/bin", "SECRET=s"}}
}

func commandJob(t *testing.T, l *Local, argv ...string) Job {
	t.Helper()
	lane, _ := lanesOf(t, map[string]config.Lane{"x": {Argv: argv, Env: map[string]string{"FROM_LANE": "1"}}}).Lookup("x")
	job := jobOn(t, lane)
	job.RunsDir, job.Workspace, job.LogPath = l.RunsDir, t.TempDir(), filepath.Join(t.TempDir(), "log")
	return job
}

func waitExit(t *testing.T, r Running) Exit {
	t.Helper()
	select {
	case <-r.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the worker does not end")
	}
	return r.Exit()
}

func TestAWorkerReadsItsCardFromTheFileAndSeesNothingElse(t *testing.T) {
	l := newLocal(t)
	job := commandJob(t, l, "sh", "-c", `cat "$GATEWAYD_TASK_FILE"; pwd; env; exit 7`)
	run, err := l.Launch(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	exit := waitExit(t, run)
	if exit.Kind != Exited || exit.Code != 7 || exit.PID != run.PID() {
		t.Errorf("%+v", exit)
	}
	log, _ := os.ReadFile(job.LogPath)
	for _, want := range []string{job.Card.Body, job.Workspace + "\n", "FROM_LANE=1", "GATEWAYD_KANBAN_RUN_ID=7", "GATEWAYD_KEEPER=" + run.ID()} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the worker did not see %q", want)
		}
	}
	if strings.Contains(string(log), "SECRET") {
		t.Error("the worker saw a variable that nobody named")
	}
	again, err := l.Adopt(run.ID())
	if err != nil || waitExit(t, again).Code != 7 {
		t.Errorf("an ended worker cannot be adopted: %v", err)
	}
	if err := l.Forget(run.ID()); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(l.RunsDir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := l.Adopt(run.ID()); !errors.Is(err, ErrUnknown) {
		t.Errorf("a forgotten worker: %v", err)
	}
}

func TestForgetNeverLeavesTheRunDirectories(t *testing.T) {
	l := newLocal(t)
	home := t.TempDir()
	l.RunsDir = filepath.Join(home, "runs")
	kept := filepath.Join(l.RunsDir, "run-other")
	if err := os.MkdirAll(kept, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", ".", "..", "../runs", "x/../run-other", "run-other/.."} {
		if err := l.Forget(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := l.Adopt(id); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

func TestLaunchSaysWhoseFaultItWas(t *testing.T) {
	l := newLocal(t)
	notExecutable := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(notExecutable, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Job)
		argv   []string
		want   Fault
	}{
		"missing program":    {func(*Job) {}, []string{"no-such-program-here"}, FaultProgram},
		"not a program":      {func(*Job) {}, []string{notExecutable}, FaultProgram},
		"a word too long":    {func(j *Job) { j.Card.Title = strings.Repeat("x", MaxWord+1) }, []string{"true", "--", "{title}"}, FaultCard},
		"an option as value": {func(j *Job) { j.Board = "--help" }, []string{"true", "{board}"}, FaultCard},
		"no run directory":   {func(j *Job) { j.RunsDir = filepath.Join(notExecutable, "runs") }, []string{"true"}, FaultHost},
	} {
		job := commandJob(t, l, c.argv...)
		c.change(&job)
		_, err := l.Launch(t.Context(), job)
		launch, ok := errors.AsType[*LaunchError](err)
		if !ok || launch.Fault != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, _ := os.ReadDir(l.RunsDir); len(left) > 0 {
		t.Errorf("failed starts left %v", left)
	}
}
