package keys

import (
	"context"
	"errors"
	"time"

	"gatewayd/internal/mutation"
)

// sweepEvery is how soon a caller's going is seen where no request asks.
const sweepEvery = 500 * time.Millisecond

// ErrGone is the cause of the end of what a caller had open when its key or its login went.
var ErrGone = errors.New("the key has been removed or is over")

// held is what callers have open. A timer looks while there is something.
type held struct {
	open  map[*hold]struct{}
	timer *time.Timer
}

type hold struct {
	caller Caller
	end    context.CancelCauseFunc
}

// Hold gives a context for something long that a caller has open: it ends with the caller's key or login, whoever removes that. done must be called.
func (s *Store) Hold(ctx context.Context, c Caller) (_ context.Context, done func()) {
	ctx, end := context.WithCancelCause(ctx)
	h := &hold{caller: c, end: end}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held.open == nil {
		s.held.open = map[*hold]struct{}{}
	}
	s.held.open[h] = struct{}{}
	if s.held.timer == nil {
		s.held.timer = time.AfterFunc(sweepEvery, s.look)
	}
	return ctx, func() {
		s.mu.Lock()
		delete(s.held.open, h)
		s.mu.Unlock()
		end(nil)
	}
}

// look is the timer's: it looks at the file, and again later while anything is open.
func (s *Store) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	s.sweep()
	s.held.timer = nil
	if len(s.held.open) > 0 {
		s.held.timer = time.AfterFunc(sweepEvery, s.look)
	}
}

// sweep ends what belongs to nobody any more. Callers hold mu.
func (s *Store) sweep() {
	now := s.now()
	for h := range s.held.open {
		if !s.stands(h.caller, now) && !mutation.On("open-streams-outlive-their-key") {
			h.end(ErrGone)
		}
	}
}

// stands reports whether a caller would be let in now.
func (s *Store) stands(c Caller, now time.Time) bool {
	if c.Door == DoorSocket {
		return true
	}
	at := s.book.find(c.Key.ID)
	if at < 0 || s.book.Keys[at].Expired(now) {
		return false
	}
	if c.Door != DoorCookie {
		return true
	}
	l := s.logins[c.login]
	return l != nil && now.Before(l.ExpiresAt)
}
