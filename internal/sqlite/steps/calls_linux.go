package steps

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"gatewayd/internal/procfs"
)

// BeforeCall halts the process ahead of the n-th system call after Arm that changes a file or a directory, and tells say
// which. With n 0 it halts nothing and tells say of each. Unlike Before it sees everything: what SQLite writes inside a COMMIT, and the files that are
// made without SQLite. Plain writes are no steps of their own (a file that is being copied is not used before it is
// synced), nor is what happens in mapped memory.
//
// The kernel asks a goroutine of this process before each such call. say must change no file but what it prints on
// standard output. An error means that this kernel, or what this process runs in, does not have that.
func BeforeCall(n int64, say func(call string)) (*Stop, error) {
	listener, err := listen()
	if err != nil {
		return nil, err
	}
	s := &Stop{}
	go s.answer(listener, n, say)
	return s, nil
}

// calls are asked about; openat only where it makes or empties a file.
var calls = map[int32]string{
	unix.SYS_PWRITE64: "pwrite", unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync", unix.SYS_FTRUNCATE: "ftruncate",
	unix.SYS_FALLOCATE: "fallocate", unix.SYS_RENAMEAT: "rename", unix.SYS_RENAMEAT2: "rename", unix.SYS_UNLINKAT: "unlink",
	unix.SYS_MKDIRAT: "mkdir", unix.SYS_LINKAT: "link", unix.SYS_COPY_FILE_RANGE: "copy", unix.SYS_OPENAT: "create",
}

// byName have the path in their second argument, the others a descriptor in their first.
var byName = map[int32]bool{
	unix.SYS_RENAMEAT: true, unix.SYS_RENAMEAT2: true, unix.SYS_UNLINKAT: true, unix.SYS_MKDIRAT: true, unix.SYS_OPENAT: true,
}

// Offsets in what the filter sees of a call.
const (
	offsetCall  = 0
	offsetFlags = 16 + 2*8 // the third argument
)

// listen installs the filter on every thread and gives the descriptor on which the kernel asks.
func listen() (int, error) {
	program := filter()
	head := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("forbid new privileges: %w", err)
	}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_TSYNC|unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH, uintptr(unsafe.Pointer(&head)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return 0, fmt.Errorf("ask the kernel to tell of system calls: %w", errno)
	}
	return int(fd), nil
}

func filter() []unix.SockFilter {
	var plain []int32
	for nr := range calls {
		if nr != unix.SYS_OPENAT {
			plain = append(plain, nr)
		}
	}
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	out := []unix.SockFilter{load(offsetCall)}
	for i, nr := range plain {
		out = append(out, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(nr), Jt: uint8(len(plain) - i + 3)})
	}
	return append(out,
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_OPENAT, Jf: 2},
		load(offsetFlags),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.O_CREAT | unix.O_TRUNC, Jt: 1},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
	)
}

// question and reply are the kernel's seccomp_notif and seccomp_notif_resp.
type question struct {
	ID    uint64
	PID   uint32
	Flags uint32
	Call  int32
	Arch  uint32
	IP    uint64
	Args  [6]uint64
}

type reply struct {
	ID    uint64
	Value int64
	Errno int32
	Flags uint32
}

// answer lets calls pass until the n-th.
func (s *Stop) answer(listener int, n int64, say func(string)) {
	runtime.LockOSThread()
	var count atomic.Int64
	for {
		var q question
		if errno := ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&q)); errno != 0 {
			if errors.Is(errno, unix.EINTR) || errors.Is(errno, unix.ENOENT) {
				continue // ENOENT: the thread that asked was interrupted and asks again
			}
			say("error: " + errno.Error())
			return
		}
		if s.armed.Load() && (n == 0 || count.Add(1) == n) {
			say(q.String())
			if n > 0 {
				select {}
			}
		}
		ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&reply{ID: q.ID, Flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}))
	}
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	return errno
}

// String is the call and the name of its file.
func (q question) String() string {
	path := ""
	if byName[q.Call] {
		buf := make([]byte, 4096)
		n, _ := unix.ProcessVMReadv(os.Getpid(), []unix.Iovec{{Base: &buf[0], Len: uint64(len(buf))}}, []unix.RemoteIovec{{Base: uintptr(q.Args[1]), Len: len(buf)}}, 0)
		path = unix.ByteSliceToString(buf[:max(n, 0)])
	} else {
		path, _ = os.Readlink(procfs.FDPath(uintptr(q.Args[0])))
	}
	return calls[q.Call] + " " + filepath.Base(path)
}
