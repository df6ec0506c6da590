package e2e

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatewayd/internal/lastrun"
)

// handed starts a daemon as systemd starts one whose sockets it listens on: the descriptors from 3 on, and the pid that they are for.
func handed(t *testing.T, home string, listeners ...net.Listener) (cmd *exec.Cmd, said *bytes.Buffer) {
	t.Helper()
	cmd = exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" --home "$1"`, program, home)
	cmd.Env = append(homeEnv(home), fmt.Sprintf("LISTEN_FDS=%d", len(listeners)), "LISTEN_FDNAMES="+strings.Repeat("api:", len(listeners)-1)+"api")
	said = &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	for _, l := range listeners {
		file, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { late.Stop(); _ = cmd.Process.Kill() })
	return cmd, said
}

func listening(t *testing.T, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestASocketThatIsHandedOverIsServedAndHeldAgainstTheSameRules(t *testing.T) {
	t.Parallel()
	const offline = "model: {provider: offline}\n"
	door := listening(t, "127.0.0.1:0")
	cmd, said := handed(t, newHome(t, offline), door)
	resp, err := http.Get("http://" + door.Addr().String() + "/health") // waits at the open door until somebody comes
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	_ = resp.Body.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%v %v\n%s", resp.Status, err, said)
	}
	conn, err := net.Dial("tcp", door.Addr().String())
	if err != nil {
		t.Errorf("the door is shut with the daemon: %v", err)
	} else {
		_ = conn.Close()
	}
	for name, c := range map[string]struct {
		doors []net.Listener
		says  string
	}{
		"others reach it": {[]net.Listener{listening(t, "0.0.0.0:0")}, "keys would cross the network in the clear"},
		"two":             {[]net.Listener{listening(t, "127.0.0.1:0"), listening(t, "127.0.0.1:0")}, "2 sockets were handed over"},
	} {
		cmd, said := handed(t, newHome(t, offline), c.doors...)
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 78 || !strings.Contains(said.String(), c.says) {
			t.Errorf("%s: %v\n%s", name, err, said)
		}
	}
}

// A daemon that is killed again and again waits before it begins anew, and says so to whoever asks. A stop ends the storm.
func TestAStormOfDeathsIsWaitedOutAndASignalEndsTheWait(t *testing.T) {
	home := newHome(t, "model: {provider: offline}\nrespawn: {limit: 2, window: 1h, first_wait: 1h, longest_wait: 1h}\n")
	for range 3 {
		d := start(t, home)
		if err := d.child.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		d.end()
	}
	supervisor, environ := newManager(t)
	d := launchIn(t, home, home, []string{environ})
	supervisor.hears("EXTEND_TIMEOUT_USEC=3720000000")
	supervisor.hears("STATUS=waits until ")
	if _, errs, code := cli(t, home, "status"); code != 69 || !strings.Contains(errs, "started 3 times after runs that had died") {
		t.Errorf("status: %d %s", code, errs)
	}
	if err := d.child.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, signal := d.end(); code != 0 || signal != 0 || !strings.Contains(d.log.String(), "starts follow each other too fast") {
		t.Errorf("code %d, signal %d\n%s", code, signal, d.log)
	}
	start(t, home).stop()
}

// A daemon that is asked to stop while it still makes its parts ends with 0, and the next start does not take it for one that died.
func TestASignalDuringTheStartIsAnOrderlyStop(t *testing.T) {
	t.Parallel()
	home := newHome(t, "model: {provider: offline}\n")
	path := filepath.Join(home, "starts.json")
	for range 4 {
		before, _ := os.ReadFile(path)
		d := launch(t, home)
		d.until("the start has begun", func() bool { now, err := os.ReadFile(path); return err == nil && !bytes.Equal(now, before) })
		if err := d.child.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code, signal := d.end(); code != 0 || signal != 0 {
			t.Errorf("code %d, signal %d", code, signal)
		}
		if last, _ := lastrun.LastStart(home); !last.Clean || last.Unclean {
			t.Errorf("the start is remembered as %+v", last)
		}
	}
}

func TestSystemdIsToldHowTheDaemonIsFromItsStartToItsEnd(t *testing.T) {
	t.Parallel()
	supervisor, environ := newManager(t)
	home := newHome(t, allowTerminal)
	d := launchIn(t, home, home, []string{environ})
	if ready := supervisor.hears("READY=1"); ready != fmt.Sprintf("READY=1\nMAINPID=%d", d.child.PID()) {
		t.Errorf("told %q", ready)
	}
	d.ready()
	_, ended := d.hang("s")
	supervisor.hears("STATUS=1 turn running, 0 waiting; cards: 0 running, 0 ready on ")
	if err := d.child.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	d.until("the stacks are written", func() bool {
		names, _ := filepath.Glob(filepath.Join(home, "logs", "stacks-*.log"))
		if len(names) != 1 {
			return false
		}
		text, err := os.ReadFile(names[0])
		return err == nil && strings.Contains(string(text), "asked by SIGUSR2") && strings.Contains(string(text), "goroutine ")
	})
	if err := d.child.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	supervisor.hears("STOPPING=1")
	supervisor.hears("EXTEND_TIMEOUT_USEC=30000000")
	supervisor.hears("STATUS=stopping: ")
	if code, signal := d.end(); code != 0 || signal != 0 {
		t.Errorf("code %d, signal %d", code, signal)
	}
	<-ended
}

// A stop of the daemon leaves a worker at work; the next daemon finds it, and its card is done once.
func TestAWorkerOutlivesAStopAndIsFoundAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	began, goOn := filepath.Join(dir, "began"), filepath.Join(dir, "go-on")
	script := "echo once >> " + began + "; while [ ! -e " + goOn + " ]; do sleep 0.05; done"
	home := newHome(t, "model: {provider: offline}\nkanban:\n  lanes:\n    slow: {preset: command, argv: [sh, -c, '"+script+"']}\n")
	d := start(t, home)
	d.call(http.MethodPost, "/api/boards", map[string]string{"slug": "b"}, nil)
	var made struct{ Task card }
	d.call(http.MethodPost, "/api/boards/b/tasks", map[string]string{"title": "goes on", "assignee": "slow"}, &made)
	d.until("the worker is at work", func() bool { _, err := os.Stat(began); return err == nil })
	d.stop()
	d = start(t, home)
	if got := d.cards("b")[made.Task.ID].Status; got != "running" {
		t.Errorf("the card of a worker that is at work is %s", got)
	}
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.until("the card is done", func() bool { return d.cards("b")[made.Task.ID].Status == "done" })
	if text, _ := os.ReadFile(began); string(text) != "once\n" {
		t.Errorf("the worker was started %d times", strings.Count(string(text), "once"))
	}
	d.stop()
}
