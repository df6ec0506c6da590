package sqlite

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff spaces the tries for a lock: close together at first, when the holder is most likely between two short
// transactions, then far apart, so that a daemon never hammers a peer that has to finish. The jitter keeps equal
// waiters from meeting again.
type backoff struct{ since time.Time }

const backoffEager = 2 * time.Second

func newBackoff() *backoff { return &backoff{since: time.Now()} }

// next gives the pause before the next try, cut at the deadline; 0 means that there is no next try.
func (b *backoff) next(deadline time.Time) time.Duration {
	left := time.Until(deadline)
	if left <= 0 {
		return 0
	}
	low, high := 20*time.Millisecond, 150*time.Millisecond
	if time.Since(b.since) > backoffEager {
		low, high = 250*time.Millisecond, time.Second
	}
	return min(low+rand.N(high-low), left)
}

// pause waits for the next try and reports whether there is one.
func (b *backoff) pause(ctx context.Context, deadline time.Time) bool {
	d := b.next(deadline)
	return d > 0 && sleep(ctx, d) == nil
}
