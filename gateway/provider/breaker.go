package provider

import (
	"fmt"
	"sync"
	"time"

	"gatewayd/internal/mutation"
)

// The breaker opens after some calls in a row that went stale, counted over all conversations, and lets one probe through after two
// minutes, then after twice as long, at most every half hour. A latch that only a restart opens is what users of local models
// complain about most.
const (
	breakerFirst = 2 * time.Minute
	breakerMost  = 30 * time.Minute
)

// DefaultBreakerAfter is how many silent calls in a row open the breaker.
const DefaultBreakerAfter = 5

// breaker refuses calls to a server that only hangs. Safe for concurrent use.
type breaker struct {
	after int // silent calls in a row that open it; below 0 never

	mu      sync.Mutex
	stale   int // in a row
	since   time.Time
	wait    time.Duration
	until   time.Time // next probe; zero while closed
	probing bool
}

// refuses says when the next probe is due, as long as none is.
func (b *breaker) refuses() *Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusal()
}

// admit lets a call through or says when the next probe is due. probe is true for the one call that tries an open breaker.
func (b *breaker) admit() (probe bool, refused *Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if refused = b.refusal(); refused != nil {
		return false, refused
	}
	b.probing = !b.until.IsZero()
	return b.probing, nil
}

// refusal is the caller's with the lock held.
func (b *breaker) refusal() *Error {
	left := time.Until(b.until)
	if b.until.IsZero() || left <= 0 && !b.probing && !mutation.On("breaker-stays-latched") {
		return nil
	}
	left = max(left, 0)
	when := fmt.Sprintf("the next try is at %s, in %s", b.until.Local().Format(time.TimeOnly), left.Round(time.Second))
	if b.probing {
		when = "one call is trying it right now"
	}
	return &Error{
		Class: Breaker, RetryAfter: left,
		Message: fmt.Sprintf("the model server went silent %d times in a row, so it is left alone for a while; %s", b.stale, when),
		Remedy:  "look at the model server, or raise model.first_token_timeout if it is only slow",
	}
}

// settle records how an admitted call ended. Any answer, an error status too, shows a living server. A caller that left says nothing, and calls
// that were on their way when the breaker opened make nobody wait longer.
func (b *breaker) settle(probe bool, err *Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if probe {
		b.probing = false
	}
	switch {
	case err == nil || err.Status != 0:
		b.close()
	case err.Class == Timeout || probe && err.Class == Transport:
		b.stale++
		if closed := b.until.IsZero(); b.after >= 0 && b.stale >= b.after && (closed || probe || mutation.On("each-silent-call-opens-the-breaker-anew")) {
			if closed {
				b.since = time.Now()
			}
			b.wait = min(max(breakerFirst, 2*b.wait), breakerMost)
			b.until = time.Now().Add(b.wait)
		}
	}
}

func (b *breaker) close() { b.stale, b.wait, b.until = 0, 0, time.Time{} }

// reset closes it: a person changed something.
func (b *breaker) reset() { b.mu.Lock(); defer b.mu.Unlock(); b.close() }

func (b *breaker) open() bool { b.mu.Lock(); defer b.mu.Unlock(); return !b.until.IsZero() }

// String says how it stands.
func (b *breaker) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.until.IsZero():
		return fmt.Sprintf("closed, %d silent calls in a row", b.stale)
	case b.probing:
		return "open, one call is trying the server now"
	}
	return fmt.Sprintf("open since %s after %d silent calls, next try at %s", b.since.Local().Format(time.TimeOnly), b.stale, b.until.Local().Format(time.TimeOnly))
}
