package provider

import (
	"cmp"
	"context"
	"sync"
	"time"

	"gatewayd/internal/mutation"
)

// queue is the gate of this process. It gives permits in turn: the class that was served longest ago first, in it the session that was
// served longest ago, in that the call that came first. So a class never waits for more than one call of each other class, and a session that
// asks a hundred times never keeps another one waiting for more than one of them.
type queue struct {
	key    string
	limits Limits
	shared string // with whom, for people

	mu       sync.Mutex
	inside   int
	waiting  []*entrant
	begun    []time.Time // of the last minute, oldest first
	held     time.Time
	served   uint64 // permits so far; also the clock of the two below
	classes  map[CallerClass]uint64
	sessions map[Caller]uint64
	timer    *time.Timer
}

// entrant is one waiting call. Its fields are the queue's.
type entrant struct {
	caller Caller
	since  time.Time
	went   chan struct{} // closed when it has its permit
	moved  chan struct{} // one token when now has changed
	now    Place
}

// NewGate gives a gate for this process alone.
func NewGate(key string, limits Limits) Gate { return newQueue(key, limits) }

func newQueue(key string, limits Limits) *queue {
	return &queue{key: key, limits: limits, classes: map[CallerClass]uint64{}, sessions: map[Caller]uint64{}}
}

type permit struct {
	once  sync.Once
	leave func()
}

func (p *permit) Leave() { p.once.Do(p.leave) }

// Enter waits for its turn.
func (q *queue) Enter(ctx context.Context, caller Caller, tell func(Place)) (Permit, error) {
	if caller.Class == "" {
		caller.Class = CallerChat
	}
	mine := q.join(caller)
	life := time.NewTicker(tellAfter)
	defer life.Stop()
	for {
		select {
		case <-mine.went:
			return &permit{leave: q.leave}, nil
		case <-ctx.Done():
			q.abandon(mine)
			return nil, context.Cause(ctx)
		case <-mine.moved:
		case <-life.C:
		}
		if tell != nil {
			tell(q.placeOf(mine))
		}
	}
}

func (q *queue) join(caller Caller) *entrant {
	q.mu.Lock()
	defer q.mu.Unlock()
	mine := &entrant{caller: caller, since: time.Now(), went: make(chan struct{}), moved: make(chan struct{}, 1)}
	q.waiting = append(q.waiting, mine)
	q.advance()
	return mine
}

func (q *queue) placeOf(p *entrant) Place { q.mu.Lock(); defer q.mu.Unlock(); return p.now }

// abandon takes a call out that no longer waits. One that got its permit at the same moment gives it back.
func (q *queue) abandon(mine *entrant) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, p := range q.waiting {
		if p == mine {
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
			q.advance()
			return
		}
	}
	q.inside--
	q.advance()
}

func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inside--
	q.advance()
}

// Hold keeps everybody out until then.
func (q *queue) Hold(until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if until.After(q.held) {
		q.held = until
		q.advance()
	}
}

// advance gives permits while there are any, says to the rest where they stand, and arranges to be called again when time alone opens the
// gate. The caller holds the lock.
func (q *queue) advance() {
	now := time.Now()
	for len(q.waiting) > 0 && !q.full() && !q.opens(now).After(now) {
		next := q.next(q.waiting, q.classes, q.sessions)
		mine := q.waiting[next]
		q.waiting = append(q.waiting[:next:next], q.waiting[next+1:]...)
		q.serve(mine, now)
	}
	if len(q.waiting) == 0 && (q.inside == 0 || len(q.sessions) > sessionsMost) {
		clear(q.classes) // nobody is behind anybody
		clear(q.sessions)
	}
	q.rank(now)
	q.arm(now)
}

func (q *queue) serve(mine *entrant, now time.Time) {
	q.inside++
	q.served++
	q.classes[mine.caller.Class] = q.served
	q.sessions[mine.caller] = q.served
	if q.limits.PerMinute > 0 {
		q.begun = append(q.begun, now)
		q.begun = q.begun[max(0, len(q.begun)-q.limits.PerMinute):]
	}
	close(mine.went)
}

func (q *queue) full() bool { return q.limits.Concurrent > 0 && q.inside >= q.limits.Concurrent }

// opens is when time lets the next call through.
func (q *queue) opens(now time.Time) time.Time {
	at := now
	if q.held.After(at) {
		at = q.held
	}
	if n := q.limits.PerMinute; n > 0 && len(q.begun) >= n {
		if free := q.begun[len(q.begun)-n].Add(time.Minute); free.After(at) {
			at = free
		}
	}
	return at
}

// next gives the index of the call whose turn it is.
func (q *queue) next(waiting []*entrant, classes map[CallerClass]uint64, sessions map[Caller]uint64) int {
	best := 0
	for i, p := range waiting {
		c, b := classes[p.caller.Class], classes[waiting[best].caller.Class]
		s, t := sessions[p.caller], sessions[waiting[best].caller]
		if (c < b || c == b && s < t) && !mutation.On("gate-serves-who-came-first") {
			best = i
		}
	}
	return best
}

// sessionsMost bounds what is remembered of who was served while the provider never rests.
const sessionsMost = 4096

// rankMost bounds the work of telling places: behind it they are counted in the order of arrival.
const rankMost = 64

// rank plays the coming turns through, so that everybody knows the place where it will be served.
func (q *queue) rank(now time.Time) {
	rest := append([]*entrant(nil), q.waiting...)
	classes, sessions, served := map[CallerClass]uint64{}, map[Caller]uint64{}, q.served
	for class, at := range q.classes {
		classes[class] = at
	}
	for caller, at := range q.sessions {
		sessions[caller] = at
	}
	until := q.opens(now)
	base := Place{Waiting: len(rest)}
	if until.After(now) {
		base.Until, base.Held = until, until.Equal(q.held)
	}
	for position := 1; len(rest) > 0; position++ {
		next := 0
		if position <= rankMost {
			next = q.next(rest, classes, sessions)
		}
		mine := rest[next]
		rest = append(rest[:next:next], rest[next+1:]...)
		served++
		classes[mine.caller.Class], sessions[mine.caller] = served, served
		base.Position = position
		mine.put(base)
	}
}

func (p *entrant) put(now Place) {
	if p.now == now {
		return
	}
	p.now = now
	select {
	case p.moved <- struct{}{}:
	default:
	}
}

// arm has advance called when the time comes.
func (q *queue) arm(now time.Time) {
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
	if len(q.waiting) == 0 || q.full() {
		return
	}
	q.timer = time.AfterFunc(q.opens(now).Sub(now), func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.advance()
	})
}

// Stats gives the gate as it stands, the waiting in the order in which they will be served.
func (q *queue) Stats() GateStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := GateStats{Key: q.key, Limits: q.limits, Inside: q.inside, Through: int64(q.served), Shared: cmp.Or(q.shared, "this process")}
	if q.held.After(time.Now()) {
		s.HeldUntil = q.held
	}
	s.Waiting = make([]Waiter, len(q.waiting))
	for _, p := range q.waiting {
		if i := p.now.Position - 1; i >= 0 && i < len(s.Waiting) {
			s.Waiting[i] = Waiter{p.caller, p.since}
		}
	}
	return s
}
