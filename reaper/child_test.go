package reaper_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gatewayd/internal/procfs"
	"gatewayd/reaper"
)

// each runs the test with a cold keeper and with a warm spare, which have their descriptors and signals from other
// moments.
func each(t *testing.T, test func(t *testing.T, r *reaper.Reaper)) {
	for _, spares := range []int{-1, 1} {
		t.Run(fmt.Sprintf("spares %d", spares), func(t *testing.T) {
			r := newReaper(t, func(o *reaper.Options) { o.Spares = spares })
			if spares > 0 {
				running(t, r)
				until(t, "a spare is warm", func() bool { return r.Warm() > 0 })
			}
			test(t, r)
		})
	}
}

func TestAChildHasItsEnvironmentAndTheTagAndNothingElse(t *testing.T) {
	t.Setenv("SECRET_OF_THE_DAEMON", "1")
	each(t, func(t *testing.T, r *reaper.Reaper) {
		env := []string{path, "EMPTY=", "TWO=a b\nc", "GATEWAYD_KEEPER=an-outer-one"}
		p := start(t, r, reaper.Spec{ID: "env", Argv: []string{"sleep", "100"}, Env: env})
		got, err := procfs.Environ(p.Child().PID)
		if want := append(env[:3:3], "GATEWAYD_KEEPER=env"); err != nil || !slices.Equal(got, want) {
			t.Errorf("environment %q, want %q (%v)", got, want, err)
		}
		if got, err := procfs.Environ(p.Keeper().PID); strings.Contains(strings.Join(got, " "), "DAEMON") || err != nil {
			t.Errorf("the keeper itself has %q, %v", got, err)
		}
	})
}

func TestAChildHasThreeDescriptorsAndAKeeperNoneOfTheDaemons(t *testing.T) {
	leak, err := syscall.Dup(int(os.Stderr.Fd())) // as a socket that was handed to the daemon: not close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leak)
	each(t, func(t *testing.T, r *reaper.Reaper) {
		for _, spec := range []reaper.Spec{
			{ID: "fd-log", LogPath: t.TempDir() + "/log"},
			{ID: "fd-none"},
			{ID: "fd-out", Lifetime: reaper.EndsWithDaemon, Output: &bytes.Buffer{}},
		} {
			spec.Argv, spec.Env = []string{"sleep", "100"}, []string{path}
			p := start(t, r, spec)
			until(t, spec.ID+" has three descriptors, once its loader is done", func() bool {
				n, err := procfs.NumFDs(p.Child().PID)
				return n == 3 && err == nil
			})
			held, err := procfs.OpenFiles(func(target string) bool { return target == target0(t, leak) })
			if err != nil {
				t.Fatal(err)
			}
			for _, fd := range held {
				if fd.PID == p.Keeper().PID && fd.FD > 2 {
					t.Errorf("%s: the keeper holds the daemon's %s as %d", spec.ID, fd.Target, fd.FD)
				}
			}
		}
	})
}

func target0(t *testing.T, fd int) string {
	t.Helper()
	target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func TestAChildsSignalsAreAtTheirDefaults(t *testing.T) {
	each(t, func(t *testing.T, r *reaper.Reaper) {
		out, record, err := r.Output(t.Context(), reaper.Spec{
			Argv: []string{"grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status"}, Env: []string{path},
		})
		if err != nil || record.Code != 0 {
			t.Fatal(err, record)
		}
		for line := range strings.Lines(string(out)) {
			if mask := strings.Fields(line)[1]; strings.Trim(mask, "0") != "" {
				t.Errorf("inherited: %s", line)
			}
		}
	})
}

func TestALeaderIsASessionLeaderApartFromItsKeeper(t *testing.T) {
	r := newReaper(t)
	p := start(t, r, reaper.Spec{ID: "session", Argv: []string{"sleep", "100"}, Env: []string{path}})
	leader, err := procfs.ReadStat(p.Child().PID)
	if err != nil || leader.SID != leader.PID || leader.PGID != leader.PID || leader.PPID != p.Keeper().PID {
		t.Errorf("leader %+v, %v", leader, err)
	}
	keeper, err := procfs.ReadStat(p.Keeper().PID)
	if err != nil || keeper.SID != keeper.PID {
		t.Errorf("keeper %+v, %v", keeper, err)
	}
}

func TestAPlainChildIsSignalledThroughItsPidfd(t *testing.T) {
	child, err := reaper.StartChild([]string{"sleep", "100"}, []string{path}, "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, signal, err := child.Wait(); code != -1 || signal != 15 || err != nil {
		t.Errorf("code %d, signal %d, %v", code, signal, err)
	}
	if err := child.Signal(syscall.SIGTERM); err != os.ErrProcessDone {
		t.Errorf("signal after the end: %v", err)
	}
	var out bytes.Buffer
	child, err = reaper.StartChild([]string{"sh", "-c", "echo hi; exit 143"}, []string{path}, "", &out, nil)
	if err != nil {
		t.Fatal(err)
	}
	if code, signal, err := child.Wait(); code != 143 || signal != 0 || err != nil || out.String() != "hi\n" {
		t.Errorf("code %d, signal %d, %v, %q", code, signal, err, out.String())
	}
}
