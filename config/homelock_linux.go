package config

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lockFlags keep the lock from being a link, and opening it from waiting for a FIFO's other end.
const lockFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK

func wholeFile() *unix.Flock_t {
	return &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
}

// takeLock takes the lock unless somebody has it; it does not wait.
func takeLock(file *os.File) (held bool, err error) {
	err = unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, wholeFile())
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return true, nil
	}
	return false, err
}

// askLock tells whether somebody else has the lock, without taking it.
func askLock(file *os.File) (held bool, err error) {
	ask := wholeFile()
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, ask); err != nil {
		return false, fmt.Errorf("ask lock of %s: %w", file.Name(), err)
	}
	return ask.Type != unix.F_UNLCK, nil
}

// sameChange tells whether a path leads to the file, though by another mount: each change gives a file a time that no copy of it has. It is
// the moment of the last change of its record.
func sameChange(file *os.File, path string) bool {
	var mine, theirs unix.Stat_t
	if unix.Fstat(int(file.Fd()), &mine) != nil || unix.Stat(path, &theirs) != nil {
		return false
	}
	return mine.Ctim == theirs.Ctim && mine.Size == theirs.Size
}
