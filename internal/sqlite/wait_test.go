package sqlite

import (
	"testing"
	"time"

	"gatewayd/internal/vigil"
)

// waitUntil polls a condition that another goroutine brings about.
func waitUntil(t testing.TB, cond func() bool) {
	t.Helper()
	if !vigil.Until(20*time.Second, nil, cond) {
		t.Fatal("condition did not come about in 20 s")
	}
}
