package sqlite

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Op is one write. Do runs inside a savepoint of a transaction it may share with others; it must be re-runnable
// (assign results last, have no effects outside) and must not call Write or Read of the same File.
type Op struct {
	Label    string
	Patience time.Duration // 0: the File's own

	Do func(*Tx) error

	// Done answers, after a COMMIT whose fate is unknown, whether the operation is in: it looks for a uid that was
	// made before the write. If it is not, Do runs once more. Without Done such a COMMIT is reported as of unknown fate.
	Done func(*Conn) (bool, error)
}

// request is an operation on its way through the writer.
type request struct {
	op       Op
	visit    func(*Conn) error // instead of op.Do: something else to do on the writer's connection
	ctx      context.Context
	deadline time.Time

	state  atomic.Int32 // waiting, begun or left
	answer chan error   // buffered, so that the writer never waits for a caller
	err    error        // of Do, kept until the batch is decided
	doubt  bool         // a COMMIT of it failed in a way that does not say whether it is stored
}

const (
	waiting int32 = iota
	begun         // the writer runs it; the caller waits for the answer
	left          // the caller's context ended first; it must not run any more
)

// begin takes a request for the writer. It is true again for one that runs a second time.
func (r *request) begin() bool {
	return r.state.CompareAndSwap(waiting, begun) || r.state.Load() == begun
}

// leave takes a request back for its caller.
func (r *request) leave() bool { return r.state.CompareAndSwap(waiting, left) }

const (
	queueLen    = 1024
	batchMax    = 128
	lingerYield = 64 // Gosched calls, some tens of microseconds
)

// writer owns the writer connection on one goroutine.
type writer struct {
	f     *File
	conn  *Conn // nil between a memory fault and the next transaction
	queue chan *request

	now   []*request // being served
	next  *request   // taken from the queue but not of the running batch
	batch []*request // reused
	last  int        // size of the batch before

	shortBusy bool         // SQLite's busy timeout is below its usual value
	tries     atomic.Int64 // transactions begun or tried

	wrote   bool // committed since the last checkpoint
	wal     walState
	mu      sync.Mutex    // guards leaving
	leaving chan struct{} // closed by Close: no new requests, no more waiting for locks
	gone    chan struct{} // closed when the goroutine ended
	idle    *time.Timer
}

func newWriter(f *File) *writer {
	return &writer{
		f: f, queue: make(chan *request, queueLen),
		leaving: make(chan struct{}), gone: make(chan struct{}),
	}
}

// submit queues a request and waits for its answer.
func (w *writer) submit(ctx context.Context, r *request) error {
	r.ctx, r.answer = ctx, make(chan error, 1)
	if err := w.enqueue(ctx, r); err != nil {
		return err
	}
	select {
	case err := <-r.answer:
		return err
	case <-w.gone: // it may have looked at the queue for the last time before this request came
		w.refuseQueued()
		return <-r.answer
	case <-ctx.Done():
		if r.leave() {
			return classify(Interrupted, "%s: not begun: %w", r.op.Label, context.Cause(ctx))
		}
		return <-r.answer
	}
}

func (w *writer) enqueue(ctx context.Context, r *request) error {
	select {
	case <-w.leaving:
		return errClosed
	case <-ctx.Done(): // who has left already is never served, however idle the writer is
		return classify(Interrupted, "%s: not begun: %w", r.op.Label, context.Cause(ctx))
	default:
	}
	select {
	case w.queue <- r:
	case <-w.leaving:
		return errClosed
	case <-ctx.Done():
		return classify(Interrupted, "%s: not begun: %w", r.op.Label, context.Cause(ctx))
	}
	return nil
}

// run is the writer's goroutine.
func (w *writer) run() {
	defer close(w.gone)
	defer w.abandon()
	w.idle = time.NewTimer(idleCheck)
	defer w.idle.Stop()
	for {
		r, ok := w.take()
		if !ok {
			break
		}
		if r == nil {
			w.atRest()
			continue
		}
		w.serve(r)
		w.afterBatch()
	}
	w.refuseQueued()
}

// take waits for the next request. A nil request means that nothing came for a while; false means leaving, with
// the queue served.
func (w *writer) take() (*request, bool) {
	if r := w.next; r != nil {
		w.next = nil
		return r, true
	}
	select {
	case r := <-w.queue:
		return r, true
	default:
	}
	select {
	case r := <-w.queue:
		return r, true
	case <-w.idle.C:
		return nil, true
	case <-w.leaving:
		select {
		case r := <-w.queue:
			return r, true
		default:
			return nil, false
		}
	}
}

// serve answers one request and those that can share its transaction.
func (w *writer) serve(r *request) {
	if r.visit != nil {
		w.now = append(w.now[:0], r)
		w.attend(r)
	} else {
		batch := w.gather(r)
		w.now = append(w.now[:0], batch...)
		w.last = len(batch)
		w.commitBatch(batch)
		clear(batch)
	}
	clear(w.now)
	w.now = w.now[:0]
}

// abandon answers what was being served when a caller's function ended this goroutine (runtime.Goexit, as a
// failing test does), so that nobody waits for ever. The File is of no more use then.
func (w *writer) abandon() {
	if len(w.now) == 0 {
		return
	}
	w.f.log.Error("database writer was ended by an operation", "path", w.f.path)
	for _, r := range w.now {
		select {
		case r.answer <- classify(Closed, "an operation ended the writer's goroutine"):
		default: // answered already
		}
	}
	w.refuseQueued()
}

// gather takes what waits. After a batch of more than one it first yields, bounded, until as many have queued as
// last time: the callers just answered are about to come back, and without this pause batches settle at half
// their size, because half the callers are always in the running commit.
func (w *writer) gather(first *request) []*request {
	for range lingerYield {
		if w.last < 2 || len(w.queue)+1 >= w.last {
			break
		}
		runtime.Gosched()
	}
	batch := append(w.batch[:0], first)
	for len(batch) < batchMax {
		select {
		case r := <-w.queue:
			if r.visit != nil {
				w.next = r
				w.batch = batch
				return batch
			}
			batch = append(batch, r)
			continue
		default:
		}
		break
	}
	w.batch = batch
	return batch
}

// attend runs something that is not a write on the writer's connection, with the same patience for locks.
func (w *writer) attend(r *request) {
	if !r.begin() {
		return
	}
	wait := newBackoff()
	for {
		err := w.ready()
		if err == nil {
			w.fitBusyTimeout([]*request{r})
			err = guard(func() error { return r.visit(w.conn) })
		}
		w.afterFault(err)
		w.f.noteDamage(err)
		if ClassOf(err) != Busy || !w.pause(wait, r.ctx, r.deadline) {
			r.answer <- w.f.explain(err, "nothing was changed")
			return
		}
	}
}

// ready makes sure that there is a connection.
func (w *writer) ready() error {
	if w.conn != nil {
		return nil
	}
	return guard(func() error {
		c, err := w.f.connect(roleWriter)
		if err != nil {
			return err
		}
		held, err := c.identify()
		if err == nil && held != w.f.ident {
			err = w.f.checkIdentity()
		}
		if err != nil {
			w.f.drop(c)
			return err
		}
		w.conn = c
		w.f.watch.hold(c)
		return nil
	})
}

// afterFault gives up a connection whose memory is gone or whose transaction cannot be ended.
func (w *writer) afterFault(err error) {
	if w.conn != nil && (isFault(err) || isStillOpen(err)) {
		w.f.bury(w.conn, err)
		w.conn = nil
	}
}

// pause waits before the next try for a lock, not past the deadline, the context, or Close.
func (w *writer) pause(b *backoff, ctx context.Context, deadline time.Time) bool {
	d := b.next(deadline)
	if d <= 0 {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-w.leaving:
	}
	return false
}

func (w *writer) refuseQueued() {
	for {
		select {
		case r := <-w.queue:
			if r.begin() {
				r.answer <- errClosed
			}
		default:
			return
		}
	}
}

// close stops the goroutine after the queue is served and closes the connection. A healthy database is
// checkpointed as far as nobody is in the way; one in quarantine is left exactly as it is.
func (w *writer) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.leaving:
	default:
		close(w.leaving)
	}
	<-w.gone
	if err := w.f.keepGeneration(w.conn); err != nil {
		return err
	}
	if w.conn == nil {
		return nil
	}
	w.lastCheckpoint()
	w.f.forget(w.conn)
	err := guard(w.conn.close)
	if isFault(err) {
		w.f.bury(w.conn, err)
		err = nil
	}
	if err == nil {
		w.conn = nil
	}
	return err
}
