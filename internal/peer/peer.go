// Package peer is how tests speak with another process, a line at a time: with their own binary, which plays a daemon or somebody else who
// has a file open, or with a foreign program. It owns the process from its start to its end.
package peer

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// Process is the other one. Its methods fail the test that started it. Cmd is for signals and the pid; who waits is End or Kill.
type Process struct {
	Cmd *exec.Cmd

	t    testing.TB
	in   io.WriteCloser
	out  *bufio.Scanner
	wait func() error // once
}

// Self starts this test binary again, with more in its environment, which its TestMain looks at.
func Self(t testing.TB, env ...string) *Process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(cmd.Environ(), env...)
	return Start(t, cmd)
}

// Start starts a program whose standard input and output are the test's. It is killed when the test ends.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &Process{Cmd: cmd, t: t, in: in, out: bufio.NewScanner(out), wait: sync.OnceValue(cmd.Wait)}
	t.Cleanup(p.Kill)
	return p
}

// PID is of the process, also after its end.
func (p *Process) PID() int { return p.Cmd.Process.Pid }

// Say sends a line. To a process that is gone it sends nothing, which Line tells.
func (p *Process) Say(line string) { _, _ = fmt.Fprintln(p.in, line) }

// Line waits for its next line; false means that there is none any more.
func (p *Process) Line() (string, bool) { ok := p.out.Scan(); return p.out.Text(), ok }

// Next is the next line, which there must be.
func (p *Process) Next() string {
	p.t.Helper()
	line, ok := p.Line()
	if !ok {
		p.t.Fatalf("the other process is gone: %v", p.out.Err())
	}
	return line
}

// Want demands what the next line is.
func (p *Process) Want(line string) {
	p.t.Helper()
	if got := p.Next(); got != line {
		p.t.Fatalf("the other process says %q, not %q", got, line)
	}
}

// End closes its input and waits until it ends by itself.
func (p *Process) End() error {
	_ = p.in.Close()
	return p.wait()
}

// Kill ends it where it is, if it has not ended, and waits.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	_ = p.wait()
}
