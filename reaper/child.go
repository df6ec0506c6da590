package reaper

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// Child is a plain child process without a keeper: for the demo and for tests, which start the daemon itself and must
// be able to kill it as a machine would.
type Child struct {
	cmd   *exec.Cmd
	pidfd *os.File
}

// StartChild starts argv, whose first word is a path or is searched in the PATH of env.
func StartChild(argv, env []string, dir string, stdout, stderr io.Writer) (*Child, error) {
	c, err := newCommand(Spec{ID: "child", Argv: argv, Env: env, Dir: dir}, "")
	if err != nil {
		return nil, err
	}
	pidfd := -1
	cmd := &exec.Cmd{
		Path: c.Path, Args: argv, Env: append([]string{}, env...), Dir: c.Dir,
		Stdout: stdout, Stderr: stderr, SysProcAttr: childAttr(&pidfd),
	}
	if err := children.fork(cmd); err != nil {
		return nil, startError(argv[0], programProblem(argv[0], "", err))
	}
	return &Child{cmd: cmd, pidfd: pidfdFile(pidfd)}, nil
}

// PID gives the child's pid. It is for showing, not for signalling.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Signal sends sig to the child, through its pidfd. A child that has ended gives os.ErrProcessDone.
func (c *Child) Signal(sig syscall.Signal) error {
	return signalFile(c.pidfd, sig)
}

// Wait returns how the child ended: its exit code and 0, or -1 and the signal that killed it. It is to be called
// once.
func (c *Child) Wait() (code, signal int, err error) {
	defer c.pidfd.Close()
	defer children.forget(c.cmd)
	_ = waitExit(c.pidfd) // Wait itself would not block: the pidfd that it shares with us is non-blocking
	err = c.cmd.Wait()
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		err = nil
	}
	if c.cmd.ProcessState == nil {
		return -1, 0, err
	}
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return -1, int(status.Signal()), err
	}
	return c.cmd.ProcessState.ExitCode(), 0, err
}
