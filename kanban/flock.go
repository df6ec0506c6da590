package kanban

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gatewayd/internal/problem"
)

// FileLock is a BSD flock(2) on a lock file that Hermes uses too. Record locks of the other families would not exclude a
// Python process. The file is opened for append and never unlinked: whoever unlinks it lets two holders in. The lock ends
// with the process, however that ends. Not safe for concurrent use.
type FileLock struct {
	path string
	file *os.File
	held bool
}

// Holder is what the holder of a lock wrote into its file. It is for people: a file that nobody holds keeps the last
// holder's words, and a Hermes process writes none.
type Holder struct {
	PID   int    `json:"pid"`
	Host  string `json:"host"`
	Since int64  `json:"since"` // epoch seconds of the first time that this process took the lock
}

// ErrHeld is the cause when another process, or another FileLock of this one, has the lock.
var ErrHeld = errors.New("lock is held")

// DispatchLockPath is the lock of one tick on one board.
func DispatchLockPath(db string) string { return db + ".dispatch.lock" }

// SingletonLockPath is the lock of the one dispatcher of a root.
func (r *Root) SingletonLockPath() string { return filepath.Join(r.dir, "kanban", ".dispatcher.lock") }

// TryDispatchLock takes a board's `.dispatch.lock`, without waiting. A held lock is a Busy problem around ErrHeld.
func TryDispatchLock(db string) (*FileLock, error) { return tryLock(DispatchLockPath(db)) }

// TrySingletonLock takes the root's `kanban/.dispatcher.lock`, without waiting. Hold it for the process's life.
func (r *Root) TrySingletonLock() (*FileLock, error) {
	if err := r.fs.MkdirAll("kanban", dirMode); err != nil {
		return nil, diskProblem("the dispatcher's lock below "+r.dir, "cannot be made", unchanged, err)
	}
	return tryLock(r.SingletonLockPath())
}

// OpenLock opens a lock file without taking the lock, for a lock that is taken again and again.
func OpenLock(path string) (*FileLock, error) {
	l := &FileLock{path: path}
	return l, l.open()
}

func (l *FileLock) open() error {
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NONBLOCK, fileMode)
	if err != nil {
		return fmt.Errorf("open lock: %w", err)
	}
	l.file = f
	return nil
}

func tryLock(path string) (*FileLock, error) {
	l, err := OpenLock(path)
	if err != nil {
		return nil, err
	}
	if err := l.TryLock(); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// waitLock polls: flock itself would wait without an end.
func waitLock(ctx context.Context, path string, poll time.Duration) (*FileLock, error) {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		l, err := tryLock(path)
		if !errors.Is(err, ErrHeld) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-ticker.C:
		}
	}
}

// TryLock takes the lock if nobody has it. It notices that somebody unlinked the file and opens the new one, since a lock on
// an unlinked file excludes nobody.
func (l *FileLock) TryLock() error {
	if l.held {
		return nil
	}
	for range 3 {
		if err := flock(l.file, unix.LOCK_EX|unix.LOCK_NB); err != nil {
			return l.refused(err)
		}
		if l.current() {
			l.held = true
			l.sign()
			return nil
		}
		_ = l.file.Close()
		if err := l.open(); err != nil {
			return err
		}
	}
	return fmt.Errorf("take lock %s: the file keeps being replaced", l.path)
}

func (l *FileLock) refused(err error) error {
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("take lock %s: %w", l.path, err)
	}
	p := &problem.Error{Kind: problem.Busy, Thing: "lock " + l.path, What: "is held by another process", Fate: unchanged, Err: mark{ErrHeld}}
	if h, ok := LockHolder(l.path); ok {
		p.What = fmt.Sprintf("is held, last signed by process %d on %s", h.PID, h.Host)
	}
	return p
}

// current: the locked file is the one that lies at the path.
func (l *FileLock) current() bool {
	ours, err := l.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(l.path)
	return err == nil && os.SameFile(ours, there)
}

// sign writes who holds the lock, once per process: a tick must not write to a hundred files. It is a courtesy to people,
// so a failure does not matter.
func (l *FileLock) sign() {
	me := Holder{PID: os.Getpid(), Host: hostname(), Since: time.Now().Unix()}
	if h, ok := readHolder(l.file); ok && h.PID == me.PID && h.Host == me.Host {
		return
	}
	text, err := json.Marshal(me)
	if err == nil && l.file.Truncate(0) == nil {
		_, _ = l.file.Write(append(text, '\n'))
	}
}

// Unlock lets others in and keeps the file open for the next TryLock.
func (l *FileLock) Unlock() error {
	if !l.held {
		return nil
	}
	l.held = false
	return flock(l.file, unix.LOCK_UN)
}

// Close lets others in.
func (l *FileLock) Close() error {
	l.held = false
	return l.file.Close()
}

// Path is the lock file.
func (l *FileLock) Path() string { return l.path }

// LockHolder reads who signed a lock file last.
func LockHolder(path string) (Holder, bool) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return Holder{}, false
	}
	defer f.Close()
	return readHolder(f)
}

func readHolder(f *os.File) (Holder, bool) {
	text := make([]byte, 512)
	n, err := f.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return Holder{}, false
	}
	var h Holder
	line, _, _ := strings.Cut(string(text[:n]), "\n")
	return h, json.Unmarshal([]byte(line), &h) == nil && h.PID != 0
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
