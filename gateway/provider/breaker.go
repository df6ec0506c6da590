package provider

import (
	"fmt"
	"sync"
	"time"
)

// The breaker opens after five calls in a row that went stale, counted over all conversations, and lets one probe through after two
// minutes, then after twice as long, at most every half hour. A latch that only a restart opens is what users of local models
// complain about most.
const (
	breakerAfter = 5
	breakerFirst = 2 * time.Minute
	breakerMost  = 30 * time.Minute
)

// breaker refuses calls to a server that only hangs. Safe for concurrent use.
type breaker struct {
	mu      sync.Mutex
	stale   int // in a row
	wait    time.Duration
	until   time.Time // next probe; zero while closed
	probing bool
}

// admit lets a call through or says when the next probe is due. probe is true for the one call that tries an open breaker.
func (b *breaker) admit() (probe bool, refused *Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return false, nil
	}
	left := time.Until(b.until)
	if left <= 0 && !b.probing {
		b.probing = true
		return true, nil
	}
	left = max(left, 0)
	when := fmt.Sprintf("the next try is at %s, in %s", b.until.Local().Format(time.TimeOnly), left.Round(time.Second))
	if b.probing {
		when = "one call is trying it right now"
	}
	return false, &Error{
		Class: Breaker, RetryAfter: left,
		Message: fmt.Sprintf("the model server went silent %d times in a row, so it is left alone for a while; %s", b.stale, when),
		Remedy:  "look at the model server, or raise model.first_token_timeout if it is only slow",
	}
}

// settle records how an admitted call ended. Any answer, an error status too, shows a living server. A caller that left says nothing.
func (b *breaker) settle(probe bool, err *Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if probe {
		b.probing = false
	}
	switch {
	case err == nil || err.Status != 0:
		b.stale, b.wait, b.until = 0, 0, time.Time{}
	case err.Class == Timeout || probe && err.Class == Transport:
		b.stale++
		if b.stale >= breakerAfter {
			b.wait = min(max(breakerFirst, 2*b.wait), breakerMost)
			b.until = time.Now().Add(b.wait)
		}
	}
}

// DefaultBreakerAfter is how many silent calls in a row open the breaker.
const DefaultBreakerAfter = breakerAfter
