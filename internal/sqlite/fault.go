package sqlite

import (
	"errors"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"
)

// fault is a panic that says something about memory, not about our code: a mapping that lost its file, or
// SQLite out of memory.
type fault struct {
	cause error
	addr  uintptr // where, for a mapping; 0 otherwise
}

func (e *fault) Error() string { return "memory fault inside SQLite: " + e.cause.Error() }
func (e *fault) Unwrap() error { return e.cause }

func isFault(err error) bool {
	_, ok := errors.AsType[*fault](err)
	return ok
}

// asFault tells a fault from a bug. A mapped fault has an address; a nil dereference in our own code has the same
// text and none. The library panics with errors of its own for out-of-memory and with the errno of mmap.
func asFault(recovered any) *fault {
	err, ok := recovered.(error)
	if !ok {
		return nil
	}
	if at, ok := err.(interface {
		runtime.Error
		Addr() uintptr
	}); ok {
		return &fault{&classified{class: IO, err: err}, at.Addr()}
	}
	if _, ok := err.(syscall.Errno); ok || err.Error() == "sqlite3: out of memory" {
		return &fault{&classified{class: NoSpace, err: err}, 0}
	}
	return nil
}

// guard runs what touches a connection. Faults become errors; every other panic goes on. SetPanicOnFault is per
// goroutine, so each goroutine that touches a connection comes through here.
func guard(fn func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		r := recover()
		debug.SetPanicOnFault(old)
		if r == nil {
			return
		}
		f := asFault(r)
		if f == nil {
			panic(r)
		}
		err = f
	}()
	return fn()
}

// The library cannot free a connection whose close is refused: 256 MB of address space stay reserved and one
// open file description each. A few an hour are an incident; more is a loop.
const (
	lostPerHour = 3
	lostWindow  = time.Hour
)

// losses counts the connections of one File that could not be freed.
type losses struct {
	mu sync.Mutex
	at []time.Time
}

func (l *losses) add() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = append(l.recent(), time.Now())
	return len(l.at)
}

func (l *losses) tooMany() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = l.recent()
	return len(l.at) > lostPerHour
}

func (l *losses) recent() []time.Time {
	return slices.DeleteFunc(l.at, func(t time.Time) bool { return time.Since(t) > lostWindow })
}

// bury ends a connection whose memory faulted. The statements are finalized first, or close answers BUSY. Where
// close is refused all the same, the locks on the -shm are dropped by its descriptor, because the mapping keeps
// the open file description alive and with it the write lock, for every process until this one ends.
//
// The -shm itself is left as it is: giving it its length back from here, outside of SQLite's locks, was tried and
// made peers read an index of zeros and lose rows.
func (f *File) bury(c *Conn, cause error) {
	f.forget(c)
	f.log.Error("database connection lost to a memory fault", "path", f.path, "error", cause)
	f.keepNameless(c)
	if first, ok := errors.AsType[*fault](cause); ok {
		first.paper()
	}
	for _, s := range slices.Collect(c.db.Stmts()) {
		papered(s.Close)
	}
	err := papered(c.db.Close)
	if err == nil {
		return
	}
	n := f.lost.add()
	f.log.Error("database connection cannot be freed", "path", f.path, "lost", n, "error", err)
	guard(c.unlockShm)
	for _, file := range []interface{ Close() error }{c.wal, c.main} {
		if file != nil {
			guard(file.Close)
		}
	}
}

// paperTries bounds the pages that one call may need: an index part has eight.
const paperTries = 16

// papered runs a step of a burial. Ending an open transaction looks into the index once more and faults again, so
// each page that is gone is replaced by an empty one, in this connection's view alone.
func papered(step func() error) error {
	for try := 1; ; try++ {
		err := guard(step)
		f, ok := errors.AsType[*fault](err)
		if !ok || try == paperTries || f.paper() != nil {
			return err
		}
	}
}
