package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Readers are opened when somebody reads and closed when nobody has for a while: each costs a third of a
// megabyte, three descriptors and, while a statement of it is open, a -wal that cannot restart.
const (
	readerIdle  = 30 * time.Second
	replayTries = 3
	replayPause = 50 * time.Millisecond
	readerDrain = 10 * time.Second
	readerRest  = time.Minute // after an open that failed for another reason than a lock
)

// errNoReader sends a read to the writer's connection: no reader could be opened.
var errNoReader = errors.New("no reader connection")

// reader is a read connection in the pool.
type reader struct {
	conn  *Conn
	warm  bool // has served a read before: its disk worked
	since time.Time
}

// readers is the pool of one File.
type readers struct {
	f     *File
	slots chan struct{} // one per processor but one, so that reads never take the writer's processor away

	mu     sync.Mutex
	idle   []*reader // the last used one first out
	sweep  *time.Timer
	rest   time.Time // no open is tried before
	closed bool
}

func newReaders(f *File) *readers {
	return &readers{f: f, slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))}
}

// read runs fn on a reader, and once more on a fresh one when its memory faulted before a row was handed out.
func (p *readers) read(ctx context.Context, fn func(*Conn) error) error {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return classify(Interrupted, "read: %w", context.Cause(ctx))
	}
	defer func() { <-p.slots }()
	handed, err := p.once(ctx, fn)
	if isFault(err) && !handed {
		_, err = p.once(ctx, fn)
	}
	p.f.noteDamage(err)
	return p.f.explain(causeOf(ctx, err), "")
}

// once runs fn on one reader and says whether it got any row.
func (p *readers) once(ctx context.Context, fn func(*Conn) error) (handed bool, err error) {
	r, err := p.get()
	if err != nil {
		return false, err
	}
	lost := false
	defer func() { // also when fn panics: its transaction was ended on the way
		if !lost {
			p.put(r)
		}
	}()
	err = p.serve(ctx, r, fn)
	if lost = isFault(err) || isStillOpen(err); lost {
		p.f.bury(r.conn, err)
	}
	return r.conn.handed > 0, err
}

// serve runs the read, again on the same connection while a warm one meets a hiccup of the disk before the first
// row was handed out, and again while a peer recovers the -wal.
func (p *readers) serve(ctx context.Context, r *reader, fn func(*Conn) error) error {
	deadline := p.f.deadline(ctx, 0)
	wait := newBackoff()
	for try := 0; ; {
		err := guard(func() error { return r.conn.inRead(ctx, fn) })
		if err == nil {
			r.warm = true
			return nil
		}
		if r.conn.handed > 0 || !hasCode(err) || isFault(err) {
			return err
		}
		switch {
		case ClassOf(err) == Busy && wait.pause(ctx, deadline):
		case ClassOf(err) == IO && r.warm && try < replayTries && sleep(ctx, replayPause) == nil:
			try++
		default:
			return err
		}
	}
}

// get takes an idle reader or opens one.
func (p *readers) get() (*reader, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errClosed
	}
	if n := len(p.idle); n > 0 {
		r := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return r, nil
	}
	resting := time.Now().Before(p.rest)
	p.mu.Unlock()
	if resting {
		return nil, errNoReader
	}
	return p.open()
}

// open connects one more reader and makes sure that it reads the same file the writer holds: after a replacement
// the path leads elsewhere.
func (p *readers) open() (*reader, error) {
	var c *Conn
	err := guard(func() (err error) {
		if c, err = p.f.connect(roleReader); err != nil {
			return err
		}
		held, err := c.identify()
		if err == nil && held != p.f.ident {
			if err = p.f.checkIdentity(); err == nil {
				err = errNoReader
			}
		}
		if err != nil {
			p.f.drop(c)
		}
		return err
	})
	if err != nil {
		if ClassOf(err) != Busy {
			p.mu.Lock()
			p.rest = time.Now().Add(readerRest)
			p.mu.Unlock()
		}
		p.f.log.Warn("reader cannot be opened, the writer reads instead", "path", p.f.path, "error", err)
		return nil, fmt.Errorf("%w: %w", errNoReader, err)
	}
	return &reader{conn: c}, nil
}

// put gives a reader back.
func (p *readers) put(r *reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.f.drop(r.conn)
		return
	}
	r.since = time.Now()
	p.idle = append(p.idle, r)
	if p.sweep == nil {
		p.sweep = time.AfterFunc(readerIdle, func() { p.dropIdle(readerIdle) })
	}
}

// dropIdle closes the readers that were idle for at least this long.
func (p *readers) dropIdle(age time.Duration) {
	p.mu.Lock()
	var old []*reader
	for len(p.idle) > 0 && time.Since(p.idle[0].since) >= age {
		old = append(old, p.idle[0])
		p.idle = p.idle[1:]
	}
	if p.sweep != nil {
		p.sweep.Stop()
		p.sweep = nil
	}
	if len(p.idle) > 0 && !p.closed {
		left := readerIdle - time.Since(p.idle[0].since)
		p.sweep = time.AfterFunc(left, func() { p.dropIdle(readerIdle) })
	}
	p.mu.Unlock()
	for _, r := range old {
		p.f.drop(r.conn)
	}
}

// close waits for the running reads and closes all readers.
func (p *readers) close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	limit := time.NewTimer(readerDrain)
	defer limit.Stop()
	for range cap(p.slots) {
		select {
		case p.slots <- struct{}{}:
			defer func() { <-p.slots }()
		case <-limit.C:
			return classify(Busy, "a read is still running after %s", readerDrain)
		}
	}
	p.dropIdle(0)
	return nil
}
