package keys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gatewayd/internal/problem"
)

// openFlags keep a name from being a link elsewhere and opening it from waiting for a FIFO's other end.
const openFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK

const (
	lockName = "keys.lock"
	lockWait = 5 * time.Second // a change takes milliseconds; who holds it longer is stopped or stuck
)

// lock keeps other processes from changing keys.json between our reading and our writing it.
func lock(dir string) (unlock func(), err error) {
	path := filepath.Join(dir, lockName)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|openFlags, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &problem.Error{Kind: problem.NotFound, Thing: "home " + dir, What: "does not exist", Fate: "nothing was changed", Remedy: "`gatewayd init` makes it, and so does the first start"}
	}
	if err != nil {
		return nil, &problem.Error{Kind: problem.Unavailable, Thing: path, What: "cannot be opened", Fate: "nothing was changed", Remedy: "see that the home is writable", Err: err}
	}
	for until := time.Now().Add(lockWait); ; time.Sleep(5 * time.Millisecond) {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(until) {
			_ = file.Close()
			return nil, &problem.Error{Kind: problem.Busy, Thing: path, What: "is held by another process", Fate: "nothing was changed", Remedy: "try again", Err: err}
		}
	}
}
