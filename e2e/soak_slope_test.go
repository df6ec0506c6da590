package e2e

import (
	"testing"
	"time"
)

// What comes and goes is not called growth, and a leak beneath it is.
func TestASlopeIsThatOfTheFloor(t *testing.T) {
	var busy, leaking series
	began := time.Now().Add(-time.Hour)
	for i := range 200 {
		at := began.Add(time.Duration(i) * time.Hour / 200)
		load := float64(i * i % 37) // in flight: more of it at some times than at others
		if i > 150 {
			load *= 2
		}
		busy.at, busy.value = append(busy.at, at.Sub(began).Hours()), append(busy.value, 165+load)
		leaking.at, leaking.value = append(leaking.at, at.Sub(began).Hours()), append(leaking.value, 165+load+float64(i)/10)
	}
	if slope := busy.slope(); slope > 8 || slope < -8 {
		t.Errorf("load is called a growth of %.1f an hour", slope)
	}
	if slope := leaking.slope(); slope < 12 {
		t.Errorf("a leak of 20 an hour is called %.1f", slope)
	}
}
