package tool

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gatewayd/reaper"
)

// stubborn is a command that does what it can to outlive its end: every process of it holds the pipe open.
const stubborn = `exec 9>pipe; trap 'for i in 1 2 3 4; do setsid sleep 600 & done' TERM; setsid sleep 600 & (setsid sh -c 'sleep 600 & wait' &) ; ` +
	`(trap "" TERM; while :; do sleep 1; done) & echo up >&9; while :; do sleep 0.1; done`

// swarm is a daemon's part: it starts three such commands in the background and never ends by itself.
func swarm(dir string) {
	r, err := reaper.New(reaper.Options{Dir: filepath.Join(dir, "keepers"), Spares: -1})
	if err != nil {
		panic(err)
	}
	set := NewSet(NewTerminal(TerminalOptions{Reaper: r, Dir: dir, State: filepath.Join(dir, "shells")}))
	for range 3 {
		set.Run(context.Background(), Call{Name: "terminal", Session: "a", Policy: cli, Args: args(m{"command": stubborn, "background": true})})
	}
	select {}
}

func TestAKilledDaemonLeavesNoCommandInTheBackground(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.OpenFile(pipe, os.O_RDWR|syscall.O_NONBLOCK, 0) // for writing too, so that it has a writer before the first of them
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	daemon, err := reaper.StartChild([]string{exe}, []string{"GATEWAYD_TEST_SWARM=" + dir}, dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Signal(syscall.SIGKILL); <-daemon.Done() })
	if err := in.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(in)
	for range 3 {
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	only, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer only.Close()
	in.Close()
	if err := daemon.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-daemon.Done()
	if err := only.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, only); err != nil { // ends with the last process that holds the pipe
		t.Errorf("after the daemon's death some of its commands go on: %v", err)
	}
	next, err := reaper.New(reaper.Options{Dir: filepath.Join(dir, "keepers"), Spares: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := NewSet(NewTerminal(TerminalOptions{Reaper: next, Dir: dir, State: filepath.Join(dir, "shells")})).Reclaim(soon(t)); err != nil {
		t.Error(err)
	}
	if records, err := next.Records(); err != nil || len(records) != 0 {
		t.Errorf("records left: %v, %v", records, err)
	}
}
