package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// Where SQLite keeps its locks: a reader holds the shared range of the main file and one of the read marks of the -shm.
const (
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
	lock := unix.Flock_t{Type: unix.F_RDLCK, Start: start, Len: length}
	_ = unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &lock)
}

// tryHold marks an open directory as in use for as long as it is open; false when somebody else has.
func tryHold(dir *os.File) bool { return unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }
