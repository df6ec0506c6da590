package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gatewayd/gateway"
	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

// flightKey names a request under way. Another request under the same key is another flight: the store tells which of them may be done.
type flightKey struct{ scope, key, request string }

// flights are the requests under way that carry an Idempotency-Key.
type flights struct {
	mu sync.Mutex
	of map[flightKey]*flight
}

// board gives the flight of a request, and whether it is the one that does it.
func (a *flights) board(key flightKey, w http.ResponseWriter) (f *flight, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f, known := a.of[key]; known && !mutation.On("joining-runs-again") {
		return f, false
	}
	if a.of == nil {
		a.of = map[flightKey]*flight{}
	}
	f = &flight{key: key, to: w, changed: make(chan struct{})}
	a.of[key] = f
	return f, true
}

func (a *flights) land(f *flight) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[f.key] == f {
		delete(a.of, f.key)
	}
}

// flight is an answer that is written: for the client that asked first, for those who asked the same meanwhile, and for those who will.
// A stream passes at once; an answer in one piece is held until it is remembered. When the first client goes its request ends by the
// rule of its endpoint, and the others hear how.
type flight struct {
	key  flightKey
	to   http.ResponseWriter
	gone func(error)

	effect, nothing atomic.Bool
	joined          atomic.Int32 // who hears it beside the first

	mu      sync.Mutex
	status  int
	head    http.Header
	body    []byte
	passes  bool // to hears it while it is written
	over    bool // it became too large, and is only passed on
	lost    bool // to is gone
	ended   bool
	aborted bool
	changed chan struct{} // closed and made anew when something of this changes
}

func (f *flight) Header() http.Header { return f.to.Header() }

// Unwrap lets http.ResponseController find the real writer for its deadlines.
func (f *flight) Unwrap() http.ResponseWriter { return f.to }

func (f *flight) tell() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// WriteHeader keeps the headers that a replay repeats.
func (f *flight) WriteHeader(status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.status != 0 {
		return
	}
	f.status, f.head = status, http.Header{}
	for name, values := range f.to.Header() {
		if echoed(name) {
			f.head[name] = values
		}
	}
	f.passes = strings.HasPrefix(f.head.Get("Content-Type"), "text/event-stream")
	if f.passes {
		f.to.WriteHeader(status)
	}
	f.tell()
}

// echoed headers are those of the answer itself; the others belong to a connection or to a moment.
func echoed(name string) bool {
	switch name {
	case "Content-Type", "Content-Disposition", "Location", "Etag", "X-Accel-Buffering", "X-Should-Retry", headerReceipt, headerReplayed:
		return true
	}
	return strings.HasPrefix(name, "X-Gatewayd-") || strings.HasPrefix(name, "X-Hermes-")
}

// Write never fails: a client that is gone is told to whoever works for it by the end of the request's context.
func (f *flight) Write(p []byte) (int, error) {
	f.WriteHeader(http.StatusOK)
	f.mu.Lock()
	var pass []byte
	switch {
	case f.passes:
		pass = p
	case len(f.body)+len(p) > sessiondb.OnceAnswer: // it cannot be remembered, so there is nothing to wait for
		pass, f.passes = append(f.body, p...), true
		f.to.WriteHeader(f.status)
	}
	if f.over = f.over || len(f.body)+len(p) > sessiondb.OnceAnswer; f.over {
		f.body = nil
	} else {
		f.body = append(f.body, p...)
	}
	lost := f.lost
	f.tell()
	f.mu.Unlock()
	if len(pass) > 0 && !lost {
		if _, err := f.to.Write(pass); err != nil {
			f.lose()
		}
	}
	return len(p), nil
}

// FlushError is for http.ResponseController.
func (f *flight) FlushError() error {
	f.mu.Lock()
	pass := f.passes && !f.lost
	f.mu.Unlock()
	if pass {
		if err := http.NewResponseController(f.to).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			f.lose()
		}
	}
	return nil
}

func (f *flight) lose() {
	f.mu.Lock()
	f.lost = true
	f.mu.Unlock()
	f.gone(gateway.ClientGone)
}

// abort says that the answer will have no end.
func (f *flight) abort() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.aborted = true
	f.tell()
}

// end sends what was held.
func (f *flight) end() {
	f.mu.Lock()
	held, status := f.body, f.status
	if f.passes || f.aborted {
		held, status = nil, 0
	}
	f.ended = true
	f.tell()
	f.mu.Unlock()
	if status != 0 {
		f.to.WriteHeader(status)
		_, _ = f.to.Write(held)
	}
}

// drops reports that nothing was done, so that the request is not to be remembered.
func (f *flight) drops() bool { return f.nothing.Load() && !f.effect.Load() }

// remembered is the answer as the store keeps it.
func (f *flight) remembered(o sessiondb.Once) sessiondb.Once {
	f.mu.Lock()
	defer f.mu.Unlock()
	head, _ := json.Marshal(f.head)
	o.Status, o.Headers, o.Body, o.Kept = max(f.status, http.StatusOK), string(head), string(f.body), !f.over
	return o
}

// hear writes an answer that somebody else asked for first, from its beginning and as it comes. Who leaves ends nothing.
func (s *server) hear(w http.ResponseWriter, r *http.Request, f *flight) {
	f.joined.Add(1)
	defer f.joined.Add(-1)
	control, at, begun := http.NewResponseController(w), 0, false
	for {
		f.mu.Lock()
		status, head, more, changed := f.status, f.head, []byte(nil), f.changed
		speaks, lost, ended := status != 0 && (f.passes || f.ended), f.aborted || f.over, f.ended
		if speaks && !lost {
			more = f.body[at:]
			at = len(f.body)
		}
		f.mu.Unlock()
		switch {
		case lost && begun:
			panic(http.ErrAbortHandler) // it has no end that could be told
		case lost:
			s.fail(w, r, errNotHeard())
			return
		case speaks && !begun:
			begun = true
			for name, values := range head {
				w.Header()[name] = values
			}
			w.Header().Set(headerReplayed, "true")
			w.WriteHeader(status)
		}
		if len(more) > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(s.Patience))
			if _, err := w.Write(more); err != nil || control.Flush() != nil {
				return
			}
		}
		if ended {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func errNotHeard() *refusal {
	return &refusal{
		status: http.StatusConflict, code: "idempotency_unknown", param: headerOnce,
		message: headerOnce + ": the same request ran already, and its answer cannot be told a second time while it runs. It was not done again: send it again later",
	}
}
