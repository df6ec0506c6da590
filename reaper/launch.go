package reaper

import (
	"fmt"
	"os"
	"os/exec"
)

// keeperProc is a keeper process as its daemon holds it.
type keeperProc struct {
	pid     int
	pidfd   *os.File
	control *os.File
	output  *os.File      // read end of the pipe that is the keeper's stdout
	exited  chan struct{} // closed when it has exited and was reaped
}

// launch starts a keeper that waits for its command. It starts with an empty environment and in /: nothing of the
// daemon's may reach a child through it.
func (r *Reaper) launch() (*keeperProc, error) {
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
	k := &keeperProc{control: control, output: output, exited: make(chan struct{})}
	cmd := &exec.Cmd{
		Path: r.exe, Args: []string{"gatewayd", keeperVerb}, Env: []string{}, Dir: "/",
		Stdout: stdout, ExtraFiles: []*os.File{theirs},
	}
	if err := r.fork(k, cmd); err != nil {
		k.close()
		return nil, err
	}
	go r.await(k, cmd)
	return k, nil
}

func (r *Reaper) fork(k *keeperProc, cmd *exec.Cmd) error {
	pidfd := -1
	cmd.SysProcAttr = keeperAttr(&pidfd)
	r.starting.Lock()
	defer r.starting.Unlock()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start keeper: %w", err)
	}
	k.pid, k.pidfd = cmd.Process.Pid, pidfdFile(pidfd)
	r.known[k.pid] = k
	return nil
}

// await reaps one keeper. It is the only one that waits for it; everybody else waits for exited. How the keeper
// itself ended does not matter: the record does.
func (r *Reaper) await(k *keeperProc, cmd *exec.Cmd) {
	_ = waitExit(k.pidfd)
	_ = cmd.Wait()
	r.starting.Lock()
	defer r.starting.Unlock()
	if r.known[k.pid] == k { // the pid may be another keeper's by now
		delete(r.known, k.pid)
	}
	k.pidfd.Close()
	close(k.exited)
}

// close lets go of the keeper; one that has no command yet, or a command that ends with the daemon, ends by that.
func (k *keeperProc) close() {
	k.control.Close()
	k.output.Close()
}
