package sqlite

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// statInode asks the kernel for the inode alone. A stat, fstat or HasMoved would ask for the modification time
// too, and a queried time must be stamped anew by the next write, which makes the next fdatasync half as dear
// again.
func statInode(path string) (inode, error) {
	return statx(unix.AT_FDCWD, path, 0)
}

// fdInode is statInode for an open descriptor: what we really hold, whatever the path says now.
func fdInode(fd int) (inode, error) { return statx(fd, "", unix.AT_EMPTY_PATH) }

func statx(fd int, path string, flags int) (inode, error) {
	var st unix.Statx_t
	err := unix.Statx(fd, path, flags|unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return inode{}, nil
	}
	if err != nil {
		return inode{}, err
	}
	return inode{st.Dev_major, st.Dev_minor, st.Ino}, nil
}

// unlockShm drops every lock this connection holds on the -shm.
func (c *Conn) unlockShm() error {
	d, ok := c.shm.(descriptor)
	if !ok {
		return nil
	}
	whole := unix.Flock_t{Type: unix.F_UNLCK}
	if err := unix.FcntlFlock(d.Fd(), unix.F_OFD_SETLK, &whole); err != nil {
		return fmt.Errorf("unlock -shm: %w", err)
	}
	return nil
}

// paper puts an empty private page where a mapping has lost its file. Only this connection's memory changes.
func (e *fault) paper() error {
	if e.addr == 0 {
		return e
	}
	size := uintptr(os.Getpagesize())
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, e.addr&^(size-1), size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_FIXED|unix.MAP_PRIVATE|unix.MAP_ANON, ^uintptr(0), 0)
	if errno != 0 {
		return fmt.Errorf("paper over a lost page: %w", errno)
	}
	return nil
}

// diskFull reports whether the file system of a directory has no blocks or no inodes left to speak of.
func diskFull(dir string) bool {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return false
	}
	return st.Bavail*uint64(st.Bsize) < spaceLeft || (st.Files > 0 && st.Ffree == 0)
}

// diskReadOnly reports whether the file system of a directory takes no writes at all.
func diskReadOnly(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Flags&unix.ST_RDONLY != 0
}

// birthOf gives when a file was made, and asks for nothing else, like statInode.
func birthOf(path string) (time.Time, bool) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return time.Time{}, false
	}
	return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec)), true
}

// changes gives when the bytes of an open file were last written, and when it or its names last changed. It is for files
// of a lost generation: of a living one it would make the next sync dear.
func changes(file *os.File) (written, changed time.Time) {
	var st unix.Stat_t
	if unix.Fstat(int(file.Fd()), &st) != nil {
		return
	}
	return time.Unix(st.Mtim.Unix()).UTC(), time.Unix(st.Ctim.Unix()).UTC()
}

// freeBytes is what an ordinary user may still write to the file system of a directory.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// fdatasync is what SQLite calls for a commit in WAL.
func fdatasync(file *os.File) error { return unix.Fdatasync(int(file.Fd())) }

// is compares with a device and inode number as stat gives them.
func (n inode) is(dev, ino uint64) bool { return unix.Mkdev(n.major, n.minor) == dev && n.ino == ino }
