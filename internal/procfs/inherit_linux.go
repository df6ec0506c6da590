package procfs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Inherited lists the caller's descriptors above 2 that a program it starts would get too.
func Inherited() ([]int, error) {
	dir, err := os.Open(root + "self/fd")
	if err != nil {
		return nil, fmt.Errorf("list descriptors: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list descriptors: %w", err)
	}
	var found []int
	for _, fd := range numbers(names) {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && fd > 2 && flags&unix.FD_CLOEXEC == 0 {
			found = append(found, fd)
		}
	}
	return found, nil
}
