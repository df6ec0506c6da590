package sqlite

import (
	"testing"
	"time"
)

// waitUntil polls a condition that another goroutine brings about.
func waitUntil(t testing.TB, cond func() bool) {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatal("condition did not come about in 20 s")
		}
	}
}
