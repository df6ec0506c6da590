package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gatewayd/internal/procfs"
	"gatewayd/kanban"
	"gatewayd/reaper"
)

// codes is how many exit codes the workers below have: from 0 on, without those that mean more than failure.
const codes = 64

// A container's daemon is its pid 1. Of many short workers it takes each exit code as it was, and leaves no zombie.
func TestADaemonAsPidOneHasEachExitCodeOfManyWorkersAndLeavesNoZombie(t *testing.T) {
	t.Parallel()
	if err := exec.Command("unshare", "-pf", "--mount-proc", "true").Run(); err != nil {
		t.Skipf("SKIPPED: no pid namespace can be made here (unshare: %v), so a daemon as pid 1 is NOT tested", err)
	}
	workers := 40
	if *whole {
		workers = 1000
	}
	// Each death has words of its own: the same ones of many cards would be taken for the lane's fault.
	const script = `echo "$1" | tr 0-9 a-j; exit $(($1 % $2))`
	home := newHome(t, fmt.Sprintf("model: {provider: offline}\nkanban:\n  max_in_progress: 8\n  lanes:\n    short: {argv: [sh, -c, %q, sh, '{run}', '%d']}\n", script, codes))
	b := figureBoard(t, filepath.Join(home, "kanban.db"))
	once := int64(1)
	for range workers {
		if _, err := b.Create(t.Context(), kanban.NewTask{Title: "short", Assignee: "short", MaxRetries: &once}); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	var log bytes.Buffer
	child, err := reaper.StartChild([]string{"unshare", "-pf", "--mount-proc", "--kill-child", program, "--home", home, "--addr", "127.0.0.1:0"},
		[]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, home, &log, &log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Signal(syscall.SIGKILL)
		_, _, _ = child.Wait()
		if t.Failed() {
			t.Logf("log of the daemon:\n%s", log.String())
		}
	})
	r := &rivals{t: t, board: b}
	r.until("every card has been run", func() bool {
		return r.count("SELECT count(*) FROM tasks WHERE status NOT IN ('done', 'blocked')") == 0
	})
	t.Logf("%d workers in %v", workers, time.Since(began).Round(time.Millisecond))
	if n := r.count("SELECT count(*) FROM task_runs"); n != workers {
		t.Errorf("%d runs for %d cards", n, workers)
	}
	wrong := fmt.Sprintf(`SELECT r.id FROM task_runs r WHERE CASE WHEN r.id %% %[1]d = 0 THEN r.outcome IS NOT 'completed'
		ELSE r.id %% %[1]d IS NOT (SELECT json_extract(e.payload, '$.exit_code') FROM task_events e WHERE e.run_id = r.id AND e.kind = 'crashed') END`, codes)
	if ids := foreign(t, b.Path(), wrong); len(ids) > 0 {
		t.Errorf("runs whose exit code is not what it was: %v", ids)
	}
	first := onlyChild(t, child.PID())
	r.until("no zombie and no keeper of a run is left", func() bool { return len(leftovers(t, first)) == 0 })
}

// onlyChild is the daemon as this namespace numbers it.
func onlyChild(t *testing.T, pid int) int {
	t.Helper()
	pids, err := procfs.Children(pid)
	if err != nil || len(pids) != 1 {
		t.Fatalf("children of unshare: %v, %v", pids, err)
	}
	return pids[0]
}

// leftovers are the children of a process but its spare keeper: those that are dead, or have a child.
func leftovers(t *testing.T, pid int) (left []int) {
	t.Helper()
	pids, err := procfs.Children(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range pids {
		stat, err := procfs.ReadStat(child)
		grand, _ := procfs.Children(child)
		if err == nil && (stat.Dead() || len(grand) > 0) {
			left = append(left, child)
		}
	}
	return left
}
