package procfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// inode asks for the inode alone: asking for times or size of a -wal file makes its holder's next fdatasync
// half as dear again.
func inode(path string) (dev, ino uint64, err error) { return statAt(unix.AT_FDCWD, path) }

// inodeIn is inode of a name in an open directory, which saves walking the path for each descriptor.
func inodeIn(dir *os.File, name string) (dev, ino uint64, err error) {
	return statAt(int(dir.Fd()), name)
}

func statAt(dir int, name string) (dev, ino uint64, err error) {
	var st unix.Statx_t
	if err := unix.Statx(dir, name, unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st); err != nil {
		return 0, 0, err
	}
	return unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino, nil
}

// readlinkIn reads a link in an open directory into buf.
func readlinkIn(dir *os.File, name string, buf []byte) (string, error) {
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
