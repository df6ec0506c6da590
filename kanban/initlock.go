package kanban

import (
	"context"
	"log/slog"
	"time"
)

const (
	initLockSuffix = ".init.lock"

	initLockPoll = 50 * time.Millisecond
	// initLockWait bounds the queue of first openers: a holder that hangs must not hang every board with it.
	initLockWait = 10 * time.Second
)

// initLock is `<db>.init.lock`, which Hermes takes around the first open of a file. It keeps several processes from
// creating or migrating the same board at once; SQLite's own lock would do for us, but a Hermes peer creates its tables one
// by one. It is taken only where the schema needs work.
type initLock struct {
	path  string
	log   *slog.Logger
	lock  *FileLock
	tried bool
}

// acquire waits at most initLockWait, then warns and goes on without the lock.
func (l *initLock) acquire(ctx context.Context) {
	if l.tried {
		return
	}
	l.tried = true
	ctx, cancel := context.WithTimeout(ctx, initLockWait)
	defer cancel()
	lock, err := waitLock(ctx, l.path+initLockSuffix, initLockPoll)
	if err != nil {
		l.log.Warn("first-open lock not taken, going on without it", "path", l.path+initLockSuffix, "error", err)
		return
	}
	l.lock = lock
}

func (l *initLock) release() {
	if l.lock != nil {
		_ = l.lock.Close()
	}
}
