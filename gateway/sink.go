package gateway

import "sync"

// Bounds of what waits for a slow reader of events. Deltas are joined, so a reader that is merely slower than the model loses
// nothing; one that stands still is dropped, and its turn goes on.
const (
	sinkEvents = 1_024
	sinkBytes  = 4 << 20
)

// sink hands events to a reader from a goroutine of its own, so that a reader who stands still never holds a turn.
type sink struct {
	mu      sync.Mutex
	wake    chan struct{} // one token: something changed
	pending []queued
	bytes   int
	closed  bool
	nobody  bool // there is no reader
	dropped bool
	first   int // events that were there at the beginning and are not taken yet
	done    chan struct{}
	feed    *feed // of the session; takes each event too
}

// queued is an event whose text may still grow.
type queued struct {
	event Event
	more  []byte
}

// newSink starts the goroutine; a nil reader takes nothing.
func newSink(read func(Event)) *sink {
	s := &sink{wake: make(chan struct{}, 1), done: make(chan struct{})}
	if read == nil {
		s.nobody = true
		close(s.done)
		return s
	}
	go s.pump(read)
	return s
}

// also gives each event to a session's feed, before anybody puts one.
func (s *sink) also(f *feed) { s.feed = f }

// begin gives the reader what was before it came, before anything else. That does not make it a slow one.
func (s *sink) begin(events []Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		s.pending = append(s.pending, queued{event: e})
	}
	s.first = len(s.pending)
	s.signal()
}

// put never blocks.
func (s *sink) put(e Event) {
	if s.feed != nil {
		s.feed.put(e)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nobody || s.dropped || s.closed {
		return
	}
	s.bytes += len(e.Text)
	if n := len(s.pending); n > 0 && joinable(s.pending[n-1].event, e) {
		s.pending[n-1].more = append(s.pending[n-1].more, e.Text...)
		s.pending[n-1].event.Seq = e.Seq
	} else {
		s.pending = append(s.pending, queued{event: e})
	}
	if len(s.pending)-s.first > sinkEvents || s.bytes > sinkBytes {
		s.dropped, s.pending, s.bytes = true, nil, 0
	}
	s.signal()
}

// close says that nothing more comes, waits until the reader has taken what is there, and reports whether the reader was dropped.
// The caller is the reader's own.
func (s *sink) close() (dropped bool) {
	s.mu.Lock()
	s.closed = true
	s.signal()
	s.mu.Unlock()
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

func (s *sink) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *sink) pump(read func(Event)) {
	defer close(s.done)
	for {
		events, end := s.take()
		for _, q := range events {
			q.event.Text += string(q.more)
			read(q.event)
		}
		if end {
			return
		}
		if len(events) == 0 {
			<-s.wake
		}
	}
}

// take gives what waits; end means that nothing follows it.
func (s *sink) take() (events []queued, end bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events, s.pending, s.bytes, s.first = s.pending, nil, 0, 0
	return events, s.closed || s.dropped
}

// joinable reports whether b continues a.
func joinable(a, b Event) bool {
	return a.Kind == b.Kind && (a.Kind == EventDelta || a.Kind == EventReasoning)
}
