package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The container's life, played without an engine: the root file system that the Dockerfile makes, read-only, in namespaces of its own, with
// the program as pid 1 and as nobody's root.
func TestTheContainerAnswersDrainsAndFindsEverythingAgain(t *testing.T) {
	t.Parallel()
	e, volume := newEngine(t), newVolume(t)
	c := e.run("first", volume, nil).healthy()
	c.unprivileged()
	if n := c.say("hello"); n != 2 {
		t.Errorf("%d rows after a turn", n)
	}
	if code := c.signal(syscall.SIGTERM).end(); code != 0 {
		t.Errorf("the drain ends with %d", code)
	}
	c.speaksJSON("first")
	if out, code := e.ask(volume, "/gatewayd", "health"); code != 69 || strings.Count(out, "\n") > 0 {
		t.Errorf("health of a container that is gone: %d %s", code, out)
	}

	c = e.run("second", volume, nil).healthy()
	if n := c.say("again"); n != 4 {
		t.Errorf("%d rows after a turn of the next container", n)
	}
	c.signal(syscall.SIGKILL).end()
	c = e.run("third", volume, nil).healthy()
	if n := len(c.rows()); n != 4 {
		t.Errorf("%d rows after kill -9", n)
	}
	if code := c.signal(syscall.SIGINT).end(); code != 0 {
		t.Errorf("after SIGINT: %d", code)
	}
}

// A worker dies with its container. The next one of the same name gives its card out again at once.
func TestACardWhoseContainerWasKilledIsGivenOutByTheNext(t *testing.T) {
	t.Parallel()
	e, volume := newEngine(t), newVolume(t)
	yaml := "kanban:\n  crash_grace: 0s\n  lanes:\n    long: {preset: command, argv: [/gatewayd, --home, /data, logs, -f]}\n"
	if err := os.WriteFile(filepath.Join(volume, "config.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	c := e.run("gatewayd", volume, nil).healthy()
	c.call(http.MethodPost, "/api/boards", map[string]string{"slug": "default"}, nil)
	var made struct{ Task card }
	c.call(http.MethodPost, "/api/boards/default/tasks", map[string]any{"title": "a long one", "assignee": "long"}, &made)
	runs := func() int {
		var detail struct{ Runs []struct{ PID int } }
		c.call(http.MethodGet, "/api/boards/default/tasks/"+made.Task.ID, nil, &detail)
		return len(detail.Runs)
	}
	c.until("the worker runs", func() bool { return runs() == 1 })
	c.signal(syscall.SIGKILL).end()
	c = e.run("gatewayd", volume, nil).healthy()
	c.until("the card is given out again", func() bool { return runs() == 2 })
	c.signal(syscall.SIGTERM).end()
}

// ask runs another program in a container of its own and gives what it says and its exit code.
func (e *engine) ask(volume string, argv ...string) (string, int) {
	e.t.Helper()
	c := e.run("asks", volume, func(s *containerSpec) { s.Argv = argv })
	code := c.end()
	return strings.TrimSpace(c.log.String()), code
}

// unprivileged looks from outside at what the first process is.
func (c *container) unprivileged() {
	c.t.Helper()
	proc := fmt.Sprintf("/proc/%d/", c.cmd.Process.Pid)
	status, err := os.ReadFile(proc + "status")
	mounts, merr := os.ReadFile(proc + "mountinfo")
	if err != nil || merr != nil {
		c.t.Fatal(err, merr)
	}
	for _, line := range []string{"CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(string(status), line) {
			c.t.Errorf("the program has not %q:\n%s", line, status)
		}
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); f[4] == "/" && !strings.HasPrefix(f[5], "ro") {
			c.t.Errorf("the root can be written: %s", line)
		}
	}
}

// speaksJSON reads the log as a collector does: each line is one object, and one of them names the container.
func (c *container) speaksJSON(host string) {
	c.t.Helper()
	named := false
	for line := range strings.Lines(c.log.String()) {
		var entry struct{ Msg, Host string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			c.t.Errorf("no JSON: %s", line)
		}
		named = named || entry.Msg == "ready" && entry.Host == host
	}
	if !named {
		c.t.Errorf("the log does not say that %s is ready:\n%s", host, c.log.String())
	}
}

// Pids say nothing across containers: both daemons are pid 1. The lock decides, and says whose it is.
func TestASecondContainerOnTheVolumeIsRefusedWithTheNameOfTheFirst(t *testing.T) {
	t.Parallel()
	e, volume := newEngine(t), newVolume(t)
	first := e.run("first-one", volume, nil).healthy()
	out, code := e.ask(volume, e.image.Entrypoint...)
	if code != 78 || strings.Count(out, "\n") > 0 {
		t.Errorf("exit code %d, want 78: %s", code, out)
	}
	for _, word := range []string{e.image.Volume, "another container, first-one", "pid 1 there", ":" + e.image.Port} {
		if !strings.Contains(out, word) {
			t.Errorf("does not say %q: %s", word, out)
		}
	}
	if n := first.say("still there"); n != 2 {
		t.Errorf("%d rows", n)
	}
	first.signal(syscall.SIGKILL).end()
	if code := e.run("heir", volume, nil).healthy().signal(syscall.SIGTERM).end(); code != 0 {
		t.Errorf("after the stale lock: %d", code)
	}
}

// A signal that pid 1 has no handler for is dropped by the kernel, and the engine would wait and kill.
func TestPidOneTakesEverySignalThatASupervisorSends(t *testing.T) {
	t.Parallel()
	e, volume := newEngine(t), newVolume(t)
	for _, c := range []struct {
		sig  syscall.Signal
		code []int
	}{{syscall.SIGUSR1, []int{75}}, {syscall.SIGQUIT, []int{0, 2}}} {
		one := e.run("signals", volume, nil).healthy()
		one.signal(syscall.SIGHUP) // reads the configuration again and ends nothing
		one.healthy()
		code := one.signal(c.sig).end()
		if code != c.code[0] && code != c.code[len(c.code)-1] {
			t.Errorf("%v: exit code %d", c.sig, code)
		}
	}
}

// What exits in a container and has no parent comes to pid 1. Meanwhile it must not take from anybody the exit that he waits for.
func TestPidOneReapsAStormOfOrphansAndKnowsHowItsWorkersEnded(t *testing.T) {
	t.Parallel()
	e, volume := newEngine(t), newVolume(t)
	yaml := "kanban:\n  max_in_progress: 4\n  lanes:\n    good: {preset: command, argv: [/gatewayd, version]}\n    bad: {preset: command, argv: [/gatewayd, nosuchverb]}\n"
	if err := os.WriteFile(filepath.Join(volume, "config.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	c := e.run("storm", volume, nil).healthy()
	c.call(http.MethodPost, "/api/boards", map[string]string{"slug": "default"}, nil)
	stormed := make(chan string, 1)
	go func() {
		out, code := c.enter(nil, "/bin/sh", "-c", "i=0; while [ $i -lt 2000 ]; do (/bin/true & ) ; i=$((i+1)); done; echo over")
		stormed <- fmt.Sprint(out, code)
	}()
	want := map[string]string{}
	for i := range 12 {
		lane, end := "good", "done"
		if i == 3 || i == 8 { // more of them, and the lane itself would be held
			lane, end = "bad", "blocked"
		}
		var made struct{ Task card }
		c.call(http.MethodPost, "/api/boards/default/tasks", map[string]any{"title": fmt.Sprint("card ", i), "assignee": lane, "max_retries": 1}, &made)
		want[made.Task.ID] = end
	}
	if said := <-stormed; said != "over0" {
		t.Fatalf("the storm: %s", said)
	}
	c.until("each card ends as its worker did", func() bool {
		var list struct{ Tasks []card }
		c.call(http.MethodGet, "/api/boards/default/tasks", nil, &list)
		right := 0
		for _, task := range list.Tasks {
			if want[task.ID] == task.Status {
				right++
			}
		}
		return right == len(want)
	})
	c.until("no zombie remains", func() bool { return zombies(t, c.cmd.Process.Pid) == 0 })
	if code := c.signal(syscall.SIGTERM).end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// zombies counts the dead children of a process.
func zombies(t *testing.T, pid int) (n int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(lists) == 0 {
		t.Fatal("the children of pid 1 cannot be read: ", err)
	}
	for _, list := range lists {
		raw, _ := os.ReadFile(list)
		for _, child := range strings.Fields(string(raw)) {
			if status, err := os.ReadFile("/proc/" + child + "/status"); err == nil && strings.Contains(string(status), "State:\tZ") {
				n++
			}
		}
	}
	return n
}

// A volume that cannot be used is one line with what to do, and a code that says whether trying again may help.
func TestAVolumeThatCannotBeUsedIsOneLine(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	for _, c := range []struct {
		name   string
		volume func(t *testing.T) string
		change func(*containerSpec)
		code   int
		says   []string
	}{
		{"read-only", newVolume, func(s *containerSpec) { s.Mounts[0].ReadOnly = true }, 78, []string{"read-only", "mount it writable"}},
		{"full", fullVolume, nil, 1, []string{"free some space"}},
		{"of another user", foreignVolume, nil, 78, []string{"not writable for this user (uid 10000)", "change its owner"}},
		{"its files are of another user", foreignFiles, nil, 78, []string{"10000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			one := e.run("refused", c.volume(t), c.change)
			code := one.end()
			out := strings.TrimSpace(one.log.String())
			if code != c.code || strings.Count(out, "\n") > 0 {
				t.Errorf("exit code %d, want %d and one line:\n%s", code, c.code, out)
			}
			for _, word := range c.says {
				if !strings.Contains(out, word) {
					t.Errorf("does not say %q: %s", word, out)
				}
			}
		})
	}
}

func fullVolume(t *testing.T) string {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("SKIPPED: no small file system can be mounted here: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("it is not full")
	}
	return dir
}

// foreignVolume is one that was used under another user's number.
func foreignVolume(t *testing.T) string {
	dir := t.TempDir()
	if err := os.Chown(dir, 4242, 4242); err != nil {
		t.Skip("SKIPPED: this user cannot give a directory away: ", err)
	}
	return dir
}

func foreignFiles(t *testing.T) string {
	dir := t.TempDir()
	path := filepath.Join(dir, "gatewayd.lock")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 4242, 4242); err != nil {
		t.Skip("SKIPPED: this user cannot give a file away: ", err)
	}
	return dir
}

// Without a volume everything is gone with the container. It works all the same, and says so where people look.
func TestAHomeInTheContainersOwnLayerIsNamed(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	groups := t.TempDir()
	if err := os.WriteFile(filepath.Join(groups, "memory.max"), []byte("268435456\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := e.run("no-volume", "", func(s *containerSpec) {
		s.Writable, s.Mounts = true, []containerMount{{From: groups, To: "/sys/fs/cgroup"}}
	}).healthy()
	for _, verb := range [][]string{{"/gatewayd", "health"}, {"/gatewayd", "doctor"}} {
		if out, _ := c.exec(verb...); !strings.Contains(out, "container's own layer") {
			t.Errorf("%v does not say it: %s", verb, out)
		}
	}
	if out, _ := c.exec("/gatewayd", "status", "--all"); !strings.Contains(out, "230 MiB") || !strings.Contains(out, "256 MiB") {
		t.Errorf("status does not say what bounds the memory: %s", out)
	}
	if code := c.signal(syscall.SIGTERM).end(); code != 0 || !strings.Contains(c.log.String(), "container's own layer") {
		t.Errorf("exit code %d:\n%s", code, c.log.String())
	}
}
