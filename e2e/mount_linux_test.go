package e2e

import "syscall"

// mountMemory mounts a file system in memory on a directory.
func mountMemory(dir string, readOnly bool, options string) error {
	var flags uintptr
	if readOnly {
		flags = syscall.MS_RDONLY
	}
	return syscall.Mount("none", dir, "tmpfs", flags, options)
}

// unmount takes it away, also from under descriptors that are still open.
func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
