package reaper

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gatewayd/internal/procfs"
)

// selfExe is the running binary itself, also when an upgrade has replaced or removed the file it came from: daemon
// and keeper are always of one version.
const selfExe = "/proc/self/exe"

// becomeSubreaper makes orphaned descendants children of this process instead of pid 1.
func becomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	return nil
}

// checkKernel asks for what the promises of this package rest on.
func checkKernel() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("open pidfd: %w", err)
	}
	return unix.Close(fd)
}

// keeperAttr: a session of its own, so that no terminal and no group signal of the daemon's reaches the keeper.
func keeperAttr(pidfd *int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, PidFD: pidfd}
}

// leaderAttr: the leader has a session too, apart from the keeper's, so that a signal to its group never hits the
// keeper. The kernel kills it with the keeper's thread that forked it; the keeper locks that thread for good,
// because the signal follows the thread and not the process.
func leaderAttr(pidfd *int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, PidFD: pidfd, Pdeathsig: syscall.SIGKILL}
}

func childAttr(pidfd *int) *syscall.SysProcAttr { return &syscall.SysProcAttr{PidFD: pidfd} }

// pidfdFile hands a pidfd to the runtime's poller, so that waiting for an exit costs no thread. The flag is shared
// with the copy that os.Process holds, so Wait there answers EAGAIN until waitExit has returned.
func pidfdFile(fd int) *os.File {
	_ = unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), "pidfd")
}

// waitExit returns when the process behind the pidfd has exited; it does not reap. A process that a debugger or strace follows is
// theirs for a moment after that, and Wait has to wait for them: from here on the descriptor lets it.
func waitExit(pidfd *os.File) error {
	conn, err := pidfd.SyscallConn()
	if err != nil {
		return fmt.Errorf("wait for process: %w", err)
	}
	if err := conn.Read(func(fd uintptr) bool { return hasExited(int(fd)) }); err != nil {
		return err
	}
	return conn.Control(func(fd uintptr) { _ = unix.SetNonblock(int(fd), false) })
}

func hasExited(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n > 0
		}
	}
}

// openVerified opens a pidfd and only then looks whether the pid is still this process: after that the descriptor
// cannot come to mean another one.
func openVerified(pid int, start uint64) (int, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, fmt.Errorf("open pidfd: %w", err)
	}
	stat, err := procfs.ReadStat(pid)
	if err == nil && stat.Start != start {
		err = fmt.Errorf("process %d is another one now: %w", pid, os.ErrProcessDone)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func signalPidfd(fd int, sig syscall.Signal) error {
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// signalFile signals through a pidfd that may have been closed meanwhile: then the process is gone.
func signalFile(pidfd *os.File, sig syscall.Signal) error {
	var sent error
	conn, err := pidfd.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { sent = signalPidfd(int(fd), sig) })
	}
	if err != nil || errors.Is(sent, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return sent
}

// waitAll waits until all have exited or the time is over, and says how many had not.
func waitAll(fds []int, limit time.Duration) int {
	end := time.Now().Add(limit)
	for {
		left := make([]unix.PollFd, 0, len(fds))
		for _, fd := range fds {
			if !hasExited(fd) {
				left = append(left, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
			}
		}
		wait := time.Until(end)
		if len(left) == 0 || wait <= 0 {
			return len(left)
		}
		if _, err := unix.Poll(left[:1], int(wait.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			return len(left)
		}
	}
}

func closeFD(fd int) { unix.Close(fd) }

// childInfo is siginfo_t as waitid fills it in.
type childInfo struct {
	signo, errno, code, _ int32
	pid                   int32
	uid                   uint32
	status                int32
	_                     [100]byte
}

// nextExited blocks until some child has exited and names it without reaping it. ECHILD says that there is no
// child any more. Only a keeper may ask this, because there every child is its own to reap.
func nextExited() (int, error) {
	var info childInfo
	for {
		err := unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return int(info.pid), err
		}
	}
}

// hasChildren reports whether this process has any child, dead or alive.
func hasChildren() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return !errors.Is(err, unix.ECHILD)
}

// reapPid takes the status of this one child, and never waits for it.
func reapPid(pid int) (syscall.WaitStatus, bool) {
	var status syscall.WaitStatus
	for {
		got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
		if !errors.Is(err, syscall.EINTR) {
			return status, err == nil && got == pid
		}
	}
}

// treeUsage gives what all reaped children and their own reaped children used.
func treeUsage() (user, system time.Duration, maxRSS int64) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(unix.RUSAGE_CHILDREN, &usage); err != nil {
		return 0, 0, 0
	}
	return time.Duration(usage.Utime.Nano()), time.Duration(usage.Stime.Nano()), usage.Maxrss << 10
}

// controlPair makes the socket between daemon and keeper. A socket and not two pipes: its end of file tells each
// that the other is gone, and what was written before stays readable. The keeper's end blocks: a spare then wakes
// up in the thread that goes on to start the leader, without a detour over the runtime's poller.
func controlPair() (daemon, keeper *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make control socket: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		closeFD(fds[0])
		closeFD(fds[1])
		return nil, nil, fmt.Errorf("prepare control socket: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control"), nil
}

// isSocket tells a keeper that was started by a daemon from one that a person typed.
func isSocket(fd int) bool {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	return err == nil && kind == unix.SOCK_STREAM
}

func keepFromChildren(fd int) { unix.CloseOnExec(fd) }

// replaceFD makes descriptor to mean what from means.
func replaceFD(from, to int) error { return unix.Dup3(from, to, 0) }

// blankFile makes a file that has no name, and so is gone with its last descriptor; nil where the file system has no
// such files.
func blankFile(dir string) *os.File {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), "blank")
}

// nameFile gives it one, which must be free.
func nameFile(blank *os.File, path string) error {
	return unix.Linkat(unix.AT_FDCWD, procfs.FDPath(blank.Fd()), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
}

func openFlagsNoFollow() int { return unix.O_NOFOLLOW }

// nameThread shows in ps what this process is, where the name would be that of the link it was started through.
func nameThread(name string) {
	if buf, err := unix.BytePtrFromString(name); err == nil {
		_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(buf)), 0, 0, 0)
	}
}
