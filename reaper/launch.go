package reaper

import (
	"fmt"
	"os"
	"os/exec"
	"time"
)

// wordsTime is for reading what a keeper said before it exited: nobody else can hold its socket open, and nobody waits
// for longer.
const wordsTime = time.Second

// keeperProc is a keeper process as its daemon holds it.
type keeperProc struct {
	pid     int
	pidfd   *os.File
	control *os.File
	output  *os.File      // read end of the pipe that is the keeper's stdout
	exited  chan struct{} // closed when it has exited and was reaped
}

// launch starts a keeper that waits for its command. It starts with an empty environment and in /: nothing of the
// daemon's may reach a child through it. pipes are for a child that is spoken with: its input and its errors.
func (r *Reaper) launch(pipes ...*os.File) (*keeperProc, error) {
	control, theirs, err := controlPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	output, stdout, err := os.Pipe()
	if err != nil {
		control.Close()
		return nil, fmt.Errorf("make output pipe: %w", err)
	}
	defer stdout.Close()
	pidfd := -1
	cmd := &exec.Cmd{
		Path: r.exe, Args: []string{"gatewayd", keeperVerb, r.store.dir}, Env: []string{}, Dir: "/",
		Stdout: stdout, ExtraFiles: append([]*os.File{theirs}, pipes...), SysProcAttr: keeperAttr(&pidfd),
	}
	if len(pipes) > 0 {
		cmd.Args = append(cmd.Args, pipedWord)
	}
	k := &keeperProc{control: control, output: output, exited: make(chan struct{})}
	if err := children.fork(cmd); err != nil {
		k.close()
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	k.pid, k.pidfd = cmd.Process.Pid, pidfdFile(pidfd)
	go k.await(cmd)
	return k, nil
}

// await reaps one keeper. It is the only one that waits for it; everybody else waits for exited. How the keeper
// itself ended does not matter: the record does.
func (k *keeperProc) await(cmd *exec.Cmd) {
	_ = waitExit(k.pidfd)
	_ = k.control.SetReadDeadline(time.Now().Add(wordsTime))
	_ = cmd.Wait()
	children.forget(cmd)
	k.pidfd.Close()
	close(k.exited)
}

// close lets go of the keeper; one that has no command yet, or a command that ends with the daemon, ends by that.
func (k *keeperProc) close() {
	k.control.Close()
	k.output.Close()
}
