package chamber

import (
	"golang.org/x/sys/unix"

	"gatewayd/internal/procfs"
)

// dropLocks takes every lock of this process on a file away, as the kernel does with classic locks when any descriptor of
// it is closed. It is what a mutation does, and nothing else.
func dropLocks(store string) {
	fds, _ := procfs.OwnFiles(func(target string) bool { return target == store || target == store+"-shm" })
	for _, fd := range fds {
		_ = unix.FcntlFlock(uintptr(fd.FD), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK})
	}
}
