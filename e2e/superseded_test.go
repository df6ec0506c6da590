package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/kanban"
)

// persistent is a worker that does not notice that its card was given to somebody else, and says so to the board in every
// way that the command line has. $1 is its card; DIR has a pipe on which it waits.
const persistent = `echo "$GATEWAYD_KANBAN_RUN_ID" > "$0/up.new"; mv "$0/up.new" "$0/up"; read -r go < "$0/pipe"
try() { "$GATEWAYD_EXE" kanban "$@" >> "$0/said" 2>&1; echo "$? $1" >> "$0/codes"; }
try heartbeat "$1"; try heartbeat "$1" --note x; try block "$1" why; try complete "$1" --summary s; try complete "$1" --summary s --force
mv "$0/codes" "$0/ended"`

// A worker whose run is over is a process like any other, with all that it was told at its start. It is refused whatever
// it says by its run, and hears why and what to do.
func TestASupersededWorkersEveryCommandIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v %s", err, out)
	}
	home := newHome(t, fmt.Sprintf("model: {provider: offline}\nkanban:\n  lanes:\n    agent: {preset: claude, argv: [sh, -c, %q, %q, '{task}']}\n", persistent, dir))
	b := figureBoard(t, filepath.Join(home, "kanban.db"))
	made, err := b.Create(t.Context(), kanban.NewTask{Title: "a card", Assignee: "agent"})
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, home)
	d.until("the worker runs", func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil })
	task, err := b.Task(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	// Another machine takes the card over, in one step: between two the daemon would see it ready, and end the worker.
	foreign(t, b.Path(), "BEGIN IMMEDIATE", "UPDATE task_runs SET status = 'reclaimed', outcome = 'reclaimed', ended_at = started_at",
		"INSERT INTO task_runs (task_id, profile, status, claim_lock, claim_expires, started_at) SELECT id, assignee, 'running', 'elsewhere:1', 9999999999, created_at FROM tasks",
		"UPDATE tasks SET claim_lock = 'elsewhere:1', claim_expires = 9999999999, worker_pid = NULL, worker_started_at = NULL, current_run_id = (SELECT max(id) FROM task_runs)",
		"COMMIT")
	const state = "SELECT status || current_run_id || claim_lock || claim_expires || COALESCE(last_heartbeat_at, '') FROM tasks"
	before := foreign(t, b.Path(), state, "SELECT count(*) FROM task_events", "SELECT count(*) FROM task_comments")
	both, err := os.OpenFile(pipe, os.O_RDWR, 0) // so that it waits for no reader
	if err != nil {
		t.Fatal(err)
	}
	defer both.Close()
	if _, err := both.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	var ended string
	d.until("the worker has tried everything", func() bool {
		raw, err := os.ReadFile(filepath.Join(dir, "ended"))
		ended = string(raw)
		return err == nil
	})
	said, _ := os.ReadFile(filepath.Join(dir, "said"))
	for line := range strings.Lines(ended) {
		if strings.HasPrefix(line, "0 ") {
			t.Errorf("a superseded worker succeeded in: %s", line)
		}
	}
	want := fmt.Sprintf("is no longer run %d's: run %d has it", task.CurrentRunID, task.CurrentRunID+1)
	if n := strings.Count(string(said), want); n != 5 || !strings.Contains(string(said), "stop working on it") {
		t.Errorf("it heard %d times %q:\n%s", n, want, said)
	}
	if after := foreign(t, b.Path(), state, "SELECT count(*) FROM task_events", "SELECT count(*) FROM task_comments"); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the board was %v, is %v", before, after)
	}
	d.stop()
}
