package gateway

import (
	"context"
	"sync"

	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// Bounds of what is kept of a running turn for those who begin to watch it later. Texts beyond ringBytes are left to the rows that hold
// them; what is not stored yet stays.
const (
	ringEvents = 16_384 // far above what the steps of a turn can tell
	ringBytes  = 256 << 10
	ringPiece  = 4_096 // deltas are joined up to here
)

// feeds is who watches which session. A feed is there while a turn runs or somebody watches.
type feeds struct {
	mu   sync.Mutex
	life string // differs from process to process
	of   map[string]*feed
}

// feed is one session's events: of the turn that runs, the newest, and to all who watch, each through a sink of its own, so that
// one who stands still holds nobody.
type feed struct {
	session  string
	all      *feeds
	mu       sync.Mutex
	users    int // turns and watchers; guarded by feeds.mu
	seq      int64
	turn     string
	ring     []Event
	bytes    int
	most     int // bytes at which texts are left to the rows next
	watchers map[*sink]struct{}
}

func (f *feeds) open(session string) *feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of, f.life = map[string]*feed{}, sessiondb.NewUID()
	}
	one, ok := f.of[session]
	if !ok {
		one = &feed{session: session, all: f, watchers: map[*sink]struct{}{}}
		f.of[session] = one
	}
	one.users++
	return one
}

func (f *feed) leave() {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	if f.users--; f.users == 0 {
		delete(f.all.of, f.session)
	}
}

// begin says that a turn has its first row.
func (f *feed) begin(turn, uid, text string) {
	f.mu.Lock()
	f.turn, f.ring, f.bytes, f.most = turn, nil, 0, ringBytes
	f.mu.Unlock()
	f.put(Event{Kind: EventTurn, UID: uid, Text: text})
}

// end says what became of the turn and forgets its events: the rows tell them.
func (f *feed) end(r *Result) {
	f.mu.Lock()
	begun := f.turn != ""
	f.mu.Unlock()
	if begun {
		copied := *r
		f.put(Event{Kind: EventEnded, Text: r.Text, Result: &copied})
	}
	f.mu.Lock()
	f.turn, f.ring, f.bytes = "", nil, 0
	f.mu.Unlock()
	f.leave()
}

// put never blocks.
func (f *feed) put(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	e.Seq, e.Turn = f.seq, f.turn
	f.keep(e)
	for w := range f.watchers {
		w.put(e)
	}
}

// keep puts an event into the ring. Deltas are joined up to a size, so the ring holds words and not letters.
func (f *feed) keep(e Event) {
	if n := len(f.ring); n > 0 && joinable(f.ring[n-1], e) && len(f.ring[n-1].Text) < ringPiece {
		f.ring[n-1].Text += e.Text
		f.ring[n-1].Seq = e.Seq
	} else {
		f.ring = append(f.ring, e)
	}
	f.bytes += len(e.Text)
	if f.bytes > f.most {
		f.slim()
	}
	if len(f.ring) > ringEvents {
		f.bytes -= len(f.ring[0].Text)
		f.ring = f.ring[1:]
	}
}

func (f *feed) attach(w *sink) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.begin(append([]Event{{Kind: EventWatching, Seq: f.seq, Turn: f.turn, Life: f.all.life}}, f.ring...))
	f.watchers[w] = struct{}{}
}

func (f *feed) detach(w *sink) {
	f.mu.Lock()
	delete(f.watchers, w)
	f.mu.Unlock()
	f.leave()
}

// Watch gives the events of whatever turns run in a session, EventWatching first, then from the beginning of the turn that runs now,
// however long it is (see feed.slim), until ctx ends. It may be called again at any time: Event.Seq tells what was seen already. The sink is
// called from one goroutine. The error says that the watcher was too slow and was cut off.
func (g *Gateway) Watch(ctx context.Context, session string, sink func(Event)) error {
	return g.Attach(session, sink)(ctx)
}

// Attach is Watch in two steps: when it has returned, no event of the session is missed, and who calls the rest, which must be
// called, waits until ctx ends.
func (g *Gateway) Attach(session string, sink func(Event)) (wait func(ctx context.Context) error) {
	f, w := g.feeds.open(session), newSink(g.whole(session, sink))
	f.attach(w)
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-w.done:
		}
		f.detach(w)
		if w.close() {
			return errTooSlow(session)
		}
		return nil
	}
}

func errTooSlow(session string) error {
	return &problem.Error{
		Kind: problem.Unavailable, Thing: "session " + session, What: "has more to tell than its watcher takes", Fate: "the turn is whole",
		Remedy: "watch it again",
	}
}
