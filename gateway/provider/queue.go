package provider

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"gatewayd/internal/mutation"
)

// queue is the gate of this process. It gives permits in turn: the class that was served longest ago first, in it the session that was
// served longest ago, in that the call that came first. So a class never waits for more than one call of each other class, and a session that
// asks a hundred times never keeps another one waiting for more than one of them. A session that is new counts as served just before the last
// one that was: it goes before who has been served since, and never before who has waited longer, however many new ones come.
type queue struct {
	key    string
	limits Limits
	shared string // with whom, for people

	mu       sync.Mutex
	inside   int
	waiting  []*entrant
	begun    []time.Time // of the last minute, oldest first
	held     time.Time
	served   int64 // permits so far
	classes  map[CallerClass]*since
	sessions map[Caller]*since
	ranked   bool // everybody's place is as it stands
	timer    *time.Timer
}

// since is when somebody was served, by the queue's own clock: two for each permit. play is where it stands while coming turns are played.
type since struct{ at, play int64 }

// entrant is one waiting call. Its fields are the queue's.
type entrant struct {
	caller  Caller
	class   *since
	session *since
	came    time.Time
	went    chan struct{} // closed when it has its permit
	now     Place
}

// NewGate gives a gate for this process alone.
func NewGate(key string, limits Limits) Gate { return newQueue(key, limits) }

func newQueue(key string, limits Limits) *queue {
	return &queue{key: key, limits: limits, classes: map[CallerClass]*since{}, sessions: map[Caller]*since{}}
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
	for q.tell(mine, tell, true); ; q.tell(mine, tell, false) {
		select {
		case <-mine.went:
			return &permit{leave: q.leave}, nil
		case <-ctx.Done():
			q.abandon(mine)
			return nil, context.Cause(ctx)
		case <-life.C:
		}
	}
}

// tell tells a waiting call its place. At first only where few wait: a thousand calls that come at once are not ranked a thousand times.
func (q *queue) tell(mine *entrant, tell func(Place), first bool) {
	if tell == nil {
		return
	}
	q.mu.Lock()
	if !first || len(q.waiting) <= rankMost {
		q.rank(time.Now())
	}
	place := mine.now
	q.mu.Unlock()
	if place.Position > 0 {
		tell(place)
	}
}

func (q *queue) join(caller Caller) *entrant {
	q.mu.Lock()
	defer q.mu.Unlock()
	mine := &entrant{caller: caller, class: q.classes[caller.Class], session: q.sessions[caller], came: time.Now(), went: make(chan struct{})}
	if mine.class == nil {
		mine.class = &since{}
		q.classes[caller.Class] = mine.class
	}
	if mine.session == nil {
		mine.session = &since{at: 2*q.served - 1}
		if mutation.On("new-sessions-go-first") {
			mine.session.at = 0
		}
		q.sessions[caller] = mine.session
	}
	q.waiting = append(q.waiting, mine)
	q.advance()
	return mine
}

// abandon takes a call out that no longer waits. One that got its permit at the same moment gives it back.
func (q *queue) abandon(mine *entrant) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, p := range q.waiting {
		if p == mine {
			q.waiting = slices.Delete(q.waiting, i, i+1)
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

// advance gives permits while there are any, and arranges to be called again when time alone opens the gate. The caller holds the lock.
func (q *queue) advance() {
	now := time.Now()
	q.replay()
	for len(q.waiting) > 0 && !q.full() && !q.opens(now).After(now) {
		next := nextOf(q.waiting)
		mine := q.waiting[next]
		q.waiting = slices.Delete(q.waiting, next, next+1)
		q.serve(mine, now)
	}
	q.forget()
	q.ranked = false
	q.arm(now)
}

// forget drops who was served: all when nobody is behind anybody, and who does not wait when there are too many.
func (q *queue) forget() {
	switch {
	case len(q.waiting) == 0 && (q.inside == 0 || len(q.sessions) > sessionsMost):
		clear(q.classes)
		clear(q.sessions)
	case len(q.sessions) > sessionsMost+len(q.waiting):
		clear(q.sessions)
		for _, p := range q.waiting {
			q.sessions[p.caller] = p.session
		}
	}
}

func (q *queue) serve(mine *entrant, now time.Time) {
	q.inside++
	q.served++
	at := since{2 * q.served, 2 * q.served}
	*mine.class, *mine.session = at, at
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

// nextOf gives the index of the call whose turn it is.
func nextOf(waiting []*entrant) int {
	best := 0
	for i, p := range waiting {
		b := waiting[best]
		if (p.class.play < b.class.play || p.class.play == b.class.play && p.session.play < b.session.play) && !mutation.On("gate-serves-who-came-first") {
			best = i
		}
	}
	return best
}

// replay has the coming turns played from where things stand.
func (q *queue) replay() {
	for _, p := range q.waiting {
		p.class.play, p.session.play = p.class.at, p.session.at
	}
}

// sessionsMost bounds what is remembered of who was served while the provider never rests.
const sessionsMost = 4096

// rankMost bounds the work of telling places: behind it they are counted in the order of arrival.
const rankMost = 64

// rank plays the coming turns through, so that everybody knows the place where it will be served. It is done when somebody asks and something
// has changed.
func (q *queue) rank(now time.Time) {
	if q.ranked {
		return
	}
	q.ranked = true
	rest := slices.Clone(q.waiting)
	until := q.opens(now)
	base := Place{Waiting: len(rest)}
	if until.After(now) {
		base.Until, base.Held = until, until.Equal(q.held)
	}
	q.replay()
	for base.Position = 1; base.Position <= rankMost && len(rest) > 0; base.Position++ {
		next := nextOf(rest)
		mine := rest[next]
		rest = slices.Delete(rest, next, next+1)
		at := 2 * (q.served + int64(base.Position))
		mine.class.play, mine.session.play = at, at
		mine.now = base
	}
	for _, mine := range rest {
		mine.now = base
		base.Position++
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
	q.rank(time.Now())
	s := GateStats{Key: q.key, Limits: q.limits, Inside: q.inside, Through: q.served, Shared: cmp.Or(q.shared, "this process")}
	if q.held.After(time.Now()) {
		s.HeldUntil = q.held
	}
	s.Waiting = make([]Waiter, len(q.waiting))
	for _, p := range q.waiting {
		if i := p.now.Position - 1; i >= 0 && i < len(s.Waiting) {
			s.Waiting[i] = Waiter{p.caller, p.came}
		}
	}
	return s
}
