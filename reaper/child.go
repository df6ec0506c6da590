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

	done         chan struct{}
	code, signal int // of the end, once done is closed
	err          error
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
	child := &Child{cmd: cmd, pidfd: pidfdFile(pidfd), done: make(chan struct{})}
	go child.wait()
	return child, nil
}

// PID gives the child's pid. It is for showing, not for signalling.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Signal sends sig to the child, through its pidfd. A child that has ended gives os.ErrProcessDone.
func (c *Child) Signal(sig syscall.Signal) error {
	select {
	case <-c.done:
		return os.ErrProcessDone
	default:
		return signalFile(c.pidfd, sig)
	}
}

// Done is closed when the child has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Wait returns how the child ended: its exit code and 0, or -1 and the signal that killed it.
func (c *Child) Wait() (code, signal int, err error) {
	<-c.done
	return c.code, c.signal, c.err
}

func (c *Child) wait() {
	defer close(c.done)
	defer c.pidfd.Close()
	defer children.forget(c.cmd)
	_ = waitExit(c.pidfd) // Wait itself would not block: the pidfd that it shares with us is non-blocking
	err := c.cmd.Wait()
	if _, failed := errors.AsType[*exec.ExitError](err); !failed {
		c.err = err
	}
	c.code = -1
	if c.cmd.ProcessState == nil {
		return
	}
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		c.signal = int(status.Signal())
		return
	}
	c.code = c.cmd.ProcessState.ExitCode()
}
