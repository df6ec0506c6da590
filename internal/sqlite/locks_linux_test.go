package sqlite

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// The same proof as the one with a foreign process, without needing one: after a stray open and close another
// description still runs into our locks, and they are OFD locks (no process owns them).
func TestOurLocksAreOFDLocksAndSurviveAStrayClose(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("a"))
	strayOpenClose(t, f.Path())
	for _, place := range []struct {
		path        string
		start, size int64
		what        string
	}{
		{f.Path(), 0x40000002, 510, "SHARED on the database"},
		{f.Path() + "-shm", 128, 1, "dead man's switch on the -shm"},
	} {
		other, err := os.OpenFile(place.path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		lock := unix.Flock_t{Type: unix.F_WRLCK, Start: place.start, Len: place.size}
		if err := unix.FcntlFlock(other.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
			t.Fatal(err)
		}
		if lock.Type != unix.F_RDLCK || lock.Pid != -1 {
			t.Errorf("%s: type %d held by %d, want a read lock held by nobody (-1)", place.what, lock.Type, lock.Pid)
		}
		other.Close()
	}
}
