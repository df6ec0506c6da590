package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gatewayd/internal/procfs"
)

// errLockHeld is why a lock of a file could not be taken at once.
var errLockHeld = errors.New("lock is held")

// tryFlock locks an existing file or directory for as long as it is kept open. The lock ends with the process.
func tryFlock(path string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := flockNow(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func flockNow(file *os.File) error {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLockHeld
	}
	return err
}

// lockRecord is what the holder of a lock writes into it, for people: the lock itself is the kernel's, and a record
// left by a process that died holds nobody up.
type lockRecord struct {
	procfs.Identity
	AcquiredAt time.Time `json:"acquired_at"`
}

const lockPoll = 100 * time.Millisecond

// takeLock waits for a lock file, makes it where it is missing and never unlinks it: whoever unlinks a lock lets two
// holders in. One that a stranger unlinked meanwhile is noticed by its inode.
func takeLock(ctx context.Context, path string, wait time.Duration) (*os.File, error) {
	for deadline := time.Now().Add(wait); ; {
		file, err := lockOnce(path)
		if !errors.Is(err, errLockHeld) {
			return file, err
		}
		if time.Now().After(deadline) {
			return nil, classify(Busy, "%s: %w%s", path, errLockHeld, heldBy(path))
		}
		if err := sleep(ctx, lockPoll); err != nil {
			return nil, err
		}
	}
}

func lockOnce(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := flockNow(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	held, err := fdInode(int(file.Fd()))
	now, also := statInode(path)
	if err != nil || also != nil || held != now {
		return nil, errors.Join(errLockHeld, file.Close())
	}
	recordHolder(file)
	return file, nil
}

// recordHolder says who has the lock, where that can be said: it only informs.
func recordHolder(file *os.File) {
	self, err := procfs.Self()
	if err != nil {
		return
	}
	raw, err := json.Marshal(lockRecord{self, time.Now().UTC()})
	if err == nil && file.Truncate(0) == nil {
		_, _ = file.WriteAt(append(raw, '\n'), 0)
	}
}

// heldBy is the end of a sentence about who has a lock.
func heldBy(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	var r lockRecord
	if json.NewDecoder(io.LimitReader(file, 4096)).Decode(&r) != nil || r.PID == 0 {
		return ""
	}
	return strings.TrimRight(fmt.Sprintf(" by process %d since %s", r.PID, r.AcquiredAt.Format(time.DateTime)), " ")
}
