package logfile

import (
	"io"
	"sync"
	"time"
)

// Bounds of a Relay.
const (
	MaxWaiting    = 256 << 10              // bytes of lines: some 1,000
	relayPatience = 100 * time.Millisecond // a terminal or a journal that is read takes a line within microseconds
)

// Relay hands lines on to a writer that may block: a pipe that nobody reads, a terminal that is stopped, a journal that hangs. Whoever
// writes waits until the line is out, so that the last words of a process are not lost; where that takes longer than relayPatience, it and
// all after it wait no more until the writer has caught up. MaxWaiting bounds what is kept meanwhile. What does not fit is dropped, and
// told in its place when the writer moves again.
//
// It is safe for concurrent use. A goroutine of its own exists while lines are under way, for as long as the writer blocks.
type Relay struct {
	out  io.Writer
	tell func(lost int, during time.Duration) // called between two lines, and may write to out

	mu      sync.Mutex
	waiting []relayed
	bytes   int           // of lines that are not out yet
	behind  bool          // somebody has waited in vain
	idle    chan struct{} // closed when all is out; nil: all is
}

// relayed is a line, or a place where lines were dropped.
type relayed struct {
	line  []byte
	out   chan struct{}
	lost  int
	since time.Time
}

// NewRelay writes to out, and has tell say how many lines were dropped since when.
func NewRelay(out io.Writer, tell func(lost int, during time.Duration)) *Relay {
	return &Relay{out: out, tell: tell}
}

// Write takes one line and never fails: nobody could be told. It blocks for relayPatience at the most.
func (r *Relay) Write(line []byte) (int, error) {
	out, wait := r.take(line)
	if wait && !closes(out, relayPatience) {
		r.mu.Lock()
		r.behind = r.idle != nil
		r.mu.Unlock()
	}
	return len(line), nil
}

// Flush waits until everything is out, at most so long.
func (r *Relay) Flush(most time.Duration) {
	r.mu.Lock()
	idle := r.idle
	r.mu.Unlock()
	if idle != nil {
		closes(idle, most)
	}
}

func (r *Relay) take(line []byte) (out chan struct{}, wait bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes > 0 && r.bytes+len(line) > MaxWaiting {
		r.drop()
		return nil, false
	}
	out = make(chan struct{})
	r.waiting = append(r.waiting, relayed{line: append([]byte(nil), line...), out: out})
	r.bytes += len(line)
	if r.idle == nil {
		r.idle = make(chan struct{})
		go r.handOn()
	}
	return out, !r.behind
}

func (r *Relay) drop() {
	if n := len(r.waiting); n == 0 || r.waiting[n-1].lost == 0 {
		r.waiting = append(r.waiting, relayed{since: time.Now()})
	}
	r.waiting[len(r.waiting)-1].lost++
}

func (r *Relay) handOn() {
	for {
		next, more := r.next()
		switch {
		case !more:
			return
		case next.lost > 0:
			r.tell(next.lost, time.Since(next.since))
		default:
			_, _ = r.out.Write(next.line)
			close(next.out)
			r.mu.Lock()
			r.bytes -= len(next.line)
			r.mu.Unlock()
		}
	}
}

func (r *Relay) next() (next relayed, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		close(r.idle)
		r.waiting, r.idle, r.behind = nil, nil, false
		return next, false
	}
	next, r.waiting = r.waiting[0], r.waiting[1:]
	return next, true
}

func closes(c <-chan struct{}, most time.Duration) bool {
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-c:
		return true
	case <-late.C:
		return false
	}
}
