package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Where SQLite keeps its locks: a reader holds the shared range of the main file and one of the read marks of the -shm.
const (
	pendingByte  = 0x40000000
	reservedByte = 0x40000001
	sharedStart  = 0x40000002
	sharedLength = 510
	lastReadMark = 127
)

// lockAsReader takes the two locks that a reader of the database holds, without waiting and without writing. In WAL they keep
// the last one who leaves from deleting the -wal, and writers from starting it anew; the last read mark is the one
// that readers choose last. In rollback mode the first keeps a writer from changing the main file. A lock that is not to be
// had is done without: comparing before and after decides in any case.
func lockAsReader(main *os.File, shm string) (unlock func()) {
	lockShared(main, sharedStart, sharedLength)
	side, err := openRegular(shm)
	if err != nil {
		return func() {} // the lock of the main file ends with its descriptor
	}
	lockShared(side, lastReadMark, 1)
	return func() { side.Close() }
}

func lockShared(file *os.File, start, length int64) {
	_ = setLock(file, unix.F_RDLCK, start, length)
}

func setLock(file *os.File, kind int16, start, length int64) error {
	lock := unix.Flock_t{Type: kind, Start: start, Len: length}
	return unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &lock)
}

// tryShared takes the lock of a reader in rollback mode as SQLite does: past the byte of a writer that waits for the
// readers to leave. Busy says that a writer is at the pages. The lock ends with the descriptor.
func tryShared(main *os.File) error {
	if err := setLock(main, unix.F_RDLCK, pendingByte, 1); err != nil {
		return lockError(err)
	}
	err := setLock(main, unix.F_RDLCK, sharedStart, sharedLength)
	if free := setLock(main, unix.F_UNLCK, pendingByte, 1); err == nil {
		err = free
	}
	return lockError(err)
}

func lockError(err error) error {
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return classify(Busy, "another process writes to it: %w", err)
	}
	return err
}

// writerAtWork reports whether anybody has a write transaction open, by the lock of it.
func writerAtWork(main *os.File) (bool, error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: reservedByte, Len: 1}
	err := unix.FcntlFlock(main.Fd(), unix.F_OFD_GETLK, &lock)
	return lock.Type != unix.F_UNLCK, err
}

// tryHold marks an open directory as in use for as long as it is open; false when somebody else has.
func tryHold(dir *os.File) bool { return unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }
