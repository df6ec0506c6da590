package dispatch

import (
	"testing"
	"time"
)

func TestALaneThatFailsAsAWholeWaitsAndSparesItsCards(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var h laneHealth
	if h.crashed("a", "pid 11 exited with code 1: no disk", now) || h.crashed("a", "pid 12 exited with code 1: no disk", now) || h.crashed("b", "pid 13 exited with code 1: no disk", now) {
		t.Fatal("two cards are not the lane")
	}
	if h.hold("x", 0, now) != nil {
		t.Fatal("holds too early")
	}
	if !h.crashed("c", "pid 14 exited with code 1: no disk", now.Add(30*time.Second)) {
		t.Fatal("three cards with one death within a minute are the lane's fault")
	}
	begin := now.Add(30 * time.Second)
	if hold := h.hold("x", 0, begin); hold == nil || hold.Until == nil || !hold.Until.Equal(begin.Add(backoffFirst)) {
		t.Fatalf("%+v", hold)
	}
	if !h.crashed("d", "pid 15 exited with code 1: no disk", begin.Add(time.Second)) || h.wait != backoffFirst {
		t.Fatal("a run that was under way must not double the wait")
	}
	probe := begin.Add(backoffFirst)
	if h.hold("x", 0, probe) != nil || h.hold("x", 1, probe) == nil {
		t.Fatal("after the wait exactly one card is let through")
	}
	for want := 2 * backoffFirst; want <= 4*backoffLongest; want *= 2 {
		if !h.crashed("a", "pid 1 exited with code 1: no disk", h.until) {
			t.Fatal("a failed probe charged its card")
		}
		if h.wait != min(want, backoffLongest) {
			t.Fatalf("wait %v, want %v", h.wait, want)
		}
	}
	h.recovered(true)
	if h.suspect == "" {
		t.Fatal("that a worker starts does not cure crashes")
	}
	h.recovered(false)
	if h.hold("x", 0, h.until) != nil {
		t.Fatal("still held after a good run")
	}
}

func TestDifferentDeathsAreNotTheLane(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var h laneHealth
	for i, text := range []string{"code 1: a", "code 1: b", "code 1: c"} {
		if h.crashed(string(rune('a'+i)), text, now) {
			t.Fatal("different deaths")
		}
	}
	for i := range 6 {
		if h.crashed(string(rune('a'+i)), "code 2: same", now.Add(time.Duration(i)*40*time.Second)) {
			t.Fatal("deaths spread over minutes")
		}
	}
}
