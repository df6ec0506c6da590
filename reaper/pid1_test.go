package reaper_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/procfs"
	"gatewayd/reaper"
)

// namespace runs the test binary as pid 1 of a pid namespace of its own.
func namespace(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if err := exec.Command("unshare", "-pf", "--mount-proc", "true").Run(); err != nil {
		t.Skipf("SKIPPED: no pid namespace can be made here (unshare: %v), so nothing is proven about pid 1", err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", append([]string{"-pf", "--mount-proc", "--kill-child", exe}, args...)...)
	cmd.Stderr, cmd.Env = os.Stderr, []string{path}
	return cmd
}

func TestAllHoldsForADaemonThatIsPidOne(t *testing.T) {
	out, err := namespace(t, "first", t.TempDir()).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var wrong []string
	if err := json.Unmarshal(out, &wrong); err != nil {
		t.Fatal(err)
	}
	for _, line := range wrong {
		t.Error(line)
	}
}

// firstRole is a daemon as pid 1. It prints what was wrong.
func firstRole(args []string) error {
	if os.Getpid() != 1 {
		return fmt.Errorf("pid %d is not 1", os.Getpid())
	}
	r, err := reaper.New(reaper.Options{Dir: args[0]})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	run := func(spec reaper.Spec) (reaper.Record, error) {
		p, err := r.Start(ctx, spec)
		if err != nil {
			return reaper.Record{}, err
		}
		return p.Record(), nil
	}
	wrong := tryEnds(r, run, 3)
	if _, err := exec.Command("sh", "-c", "setsid sleep 90.8950 >/dev/null 2>&1 &").Output(); err != nil {
		return err
	}
	n := 0
	for name, script := range trees {
		for _, lose := range []bool{false, true} {
			n++
			if line := tryTree(r, fmt.Sprintf("tree-%d", n), strings.ReplaceAll(script, "MARK", "90.8901"), lose); line != "" {
				wrong = append(wrong, name+": "+line)
			}
		}
	}
	wrong = append(wrong, tryOrphan()...)
	if len(marked("90.8950")) != 1 {
		wrong = append(wrong, "an orphan that is not a keeper's was ended")
	}
	cancel()
	if err := <-ended; err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(append([]string{}, wrong...))
}

// tryTree ends a tree through its keeper, or loses the keeper. Alone in its namespace, it may ask for everybody.
func tryTree(r *reaper.Reaper, id, script string, lose bool) string {
	up := make(chan struct{})
	p, err := r.Start(context.Background(), reaper.Spec{
		ID: id, Argv: []string{"sh", "-c", script}, Env: []string{path}, Grace: 30 * time.Millisecond,
		Lifetime: reaper.EndsWithDaemon, Output: &upWriter{up},
	})
	if err != nil {
		return err.Error()
	}
	<-up
	want := reaper.Stopped
	if lose {
		want = reaper.KeeperLost
		keeper, err := os.FindProcess(p.Keeper().PID)
		if err == nil {
			err = keeper.Kill()
		}
		if err != nil {
			return err.Error()
		}
	} else {
		p.Stop(30 * time.Millisecond)
	}
	if got := p.Record(); got.Reason != want {
		return fmt.Sprintf("record %+v", got)
	}
	if left := marked("90.8901"); len(left) > 0 {
		return fmt.Sprintf("lost %v, left %v", lose, left)
	}
	return ""
}

// tryOrphan makes an orphan as `docker exec` would, and looks whether pid 1 reaps it.
func tryOrphan() []string {
	out, err := exec.Command("sh", "-c", "setsid true >/dev/null & echo $!").Output()
	if err != nil {
		return []string{err.Error()}
	}
	var pid int
	fmt.Sscan(string(out), &pid)
	for end := time.Now().Add(limit); time.Now().Before(end); {
		if _, err := procfs.ReadStat(pid); err != nil {
			return nil
		}
	}
	return []string{fmt.Sprintf("orphan %d is not reaped", pid)}
}
