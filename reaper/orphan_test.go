package reaper_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gatewayd/internal/procfs"
	"gatewayd/reaper"
)

func TestOrphansAreReapedAndOsExecIsNotRobbed(t *testing.T) {
	r := newReaper(t)
	running(t, r)
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			if code, err := plain("sh", "-c", "exit "+strconv.Itoa(i%7)); code != i%7 || err != nil {
				t.Errorf("os/exec got %d, %v, want %d", code, err, i%7)
			}
		})
	}
	var orphans []procfs.Identity
	for range 10 {
		orphans = append(orphans, orphan(t, "true"))
	}
	all.Wait()
	for _, id := range orphans {
		until(t, "the orphan is reaped", func() bool {
			now, err := procfs.Identify(id.PID)
			return err != nil || now != id
		})
	}
}

// orphan makes a process whose parent exits at once: it comes to this process, the subreaper. It ends when its
// identity has been taken.
func orphan(t *testing.T, script string) procfs.Identity {
	t.Helper()
	cmd := exec.Command("sh", "-c", `exec 3<&0; setsid sh -c 'read go <&3; `+script+`' >/dev/null 2>&1 & echo $!`)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	defer read.Close()
	cmd.Stdin = read
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	id, err := procfs.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestAnUnclaimedDeadChildOfOursIsLeftToOsExec(t *testing.T) {
	r := newReaper(t)
	running(t, r)
	late := exec.Command("sh", "-c", "exit 9")
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "it is a zombie", func() bool {
		stat, err := procfs.ReadStat(late.Process.Pid)
		return err == nil && stat.State == 'Z'
	})
	for range 3 { // each end of a child makes Run look again
		wait(t, start(t, r, shell("look-"+strconv.Itoa(len(looks(r))), "exit 0")))
	}
	err := late.Wait()
	if failed, ok := errors.AsType[*exec.ExitError](err); !ok || failed.ExitCode() != 9 {
		t.Errorf("os/exec was robbed: %v", err)
	}
}

func looks(r *reaper.Reaper) []reaper.Record {
	records, _ := r.Records()
	return records
}

func TestRunKeepsASpareAndTakesItAlong(t *testing.T) {
	r := newReaper(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	until(t, "a spare is warm", func() bool { return r.Warm() == 1 })
	before := keepers(t)
	first := start(t, r, shell("first", "sleep 100"))
	if !strings.Contains(before, " "+strconv.Itoa(first.Keeper().PID)+" ") {
		t.Errorf("keeper %d is not the spare of %s", first.Keeper().PID, before)
	}
	command := shell("command", "sleep 100")
	command.Lifetime = reaper.EndsWithDaemon
	second := start(t, r, command)
	until(t, "another spare is warm", func() bool { return r.Warm() == 1 })

	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if r.Warm() != 0 || keepers(t) != " "+strconv.Itoa(first.Keeper().PID)+" " {
		t.Errorf("after Run these are left: %s, of which %d may be", keepers(t), first.Keeper().PID)
	}
	select {
	case <-second.Done():
		if got := second.Record(); got.Reason != reaper.Stopped {
			t.Errorf("record %+v", got)
		}
	default:
		t.Error("a command outlived Run")
	}
	if !first.Alive() {
		t.Error("a worker ended with Run")
	}
	third := start(t, r, shell("third", "exit 3"))
	if got := wait(t, third); got.Code != 3 {
		t.Errorf("after Run: %+v", got)
	}
}

// keepers lists the living children of this process that run a keeper.
func keepers(t *testing.T) string {
	t.Helper()
	pids, err := procfs.Children(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	list := " "
	for _, pid := range pids {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		stat, err := procfs.ReadStat(pid)
		if err == nil && !stat.Dead() && bytes.Contains(line, []byte("\x00keeper\x00")) {
			list += strconv.Itoa(pid) + " "
		}
	}
	return list
}

func TestASpareThatWasKilledIsReplacedAndCostsNoStart(t *testing.T) {
	r := newReaper(t)
	running(t, r)
	for i := range 3 {
		until(t, "a spare is warm", func() bool { return r.Warm() == 1 })
		pid, _ := strconv.Atoi(strings.Fields(keepers(t))[0])
		id, err := procfs.Identify(pid)
		if err != nil {
			t.Fatal(err)
		}
		kill(t, id)
		if got := wait(t, start(t, r, shell("after-"+strconv.Itoa(i), "exit 3"))); got.Code != 3 {
			t.Errorf("record %+v", got)
		}
	}
}
