package gateway

import (
	"context"
	"sync/atomic"
	"time"
)

// progress is the clock of a turn's signs of life. It reads the monotonic clock, which stands still while the machine sleeps, so
// a closed lid is not a stall.
type progress struct {
	origin time.Time
	last   atomic.Int64 // nanoseconds after origin
}

func newProgress() *progress { return &progress{origin: time.Now()} }

func (p *progress) touch() { p.last.Store(int64(time.Since(p.origin))) }

func (p *progress) at() time.Time { return p.origin.Add(time.Duration(p.last.Load())) }

func (p *progress) idle() time.Duration {
	return time.Since(p.origin) - time.Duration(p.last.Load())
}

// watch calls stalled once when there was no sign of life for limit, and returns; or returns when ctx ends.
func (p *progress) watch(ctx context.Context, limit time.Duration, stalled func()) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			rest := limit - p.idle()
			if rest <= 0 {
				stalled()
				return
			}
			timer.Reset(rest)
		}
	}
}
