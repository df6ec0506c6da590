package dispatch

import (
	"context"
	"testing"
	"time"

	"gatewayd/kanban"
)

// dies is crashed for what needs no run.
func (h *laneHealth) dies(card, text string, at time.Time) bool {
	systemic, _ := h.crashed(death{task: card, at: at}, text)
	return systemic
}

func TestALaneThatFailsAsAWholeWaitsAndSparesItsCards(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var h laneHealth
	if h.dies("a", "pid 11 exited with code 1: no disk", now) || h.dies("a", "pid 12 exited with code 1: no disk", now) || h.dies("b", "pid 13 exited with code 1: no disk", now) {
		t.Fatal("two cards are not the lane")
	}
	if h.hold("x", 0, now) != nil {
		t.Fatal("holds too early")
	}
	if !h.dies("c", "pid 14 exited with code 1: no disk", now.Add(30*time.Second)) {
		t.Fatal("three cards with one death within a minute are the lane's fault")
	}
	begin := now.Add(30 * time.Second)
	if hold := h.hold("x", 0, begin); hold == nil || hold.Until == nil || !hold.Until.Equal(begin.Add(backoffFirst)) {
		t.Fatalf("%+v", hold)
	}
	if !h.dies("d", "pid 15 exited with code 1: no disk", begin.Add(time.Second)) || h.wait != backoffFirst {
		t.Fatal("a run that was under way must not double the wait")
	}
	probe := begin.Add(backoffFirst)
	if h.hold("x", 0, probe) != nil || h.hold("x", 1, probe) == nil {
		t.Fatal("after the wait exactly one card is let through")
	}
	for want := 2 * backoffFirst; want <= 4*backoffLongest; want *= 2 {
		if !h.dies("a", "pid 1 exited with code 1: no disk", h.until) {
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
		if h.dies(string(rune('a'+i)), text, now) {
			t.Fatal("different deaths")
		}
	}
	for i := range 6 {
		if h.dies(string(rune('a'+i)), "code 2: same", now.Add(time.Duration(i)*40*time.Second)) {
			t.Fatal("deaths spread over minutes")
		}
	}
}

func TestALaneThatFailsBurnsNoCardAndARestartRemembersIt(t *testing.T) {
	h := newHouse(t)
	h.config.MaxInProgress = 1 // so that the first card dies as often as its breaker lets it, before another one starts
	b := h.board(kanban.DefaultSlug)
	ids := []string{card(t, b, "fail"), card(t, b, "fail"), card(t, b, "fail")}
	first := h.dispatcher()
	tickUntil(t, first, "the lane to wait", func() bool { return first.health["fail"] != nil && first.health["fail"].suspect != "" })
	spared := 0
	for _, id := range ids {
		spared += events(t, b, id, kanban.EventFailureSpared)
		task, err := b.Task(context.Background(), id)
		must(t, err)
		if task.Status != kanban.StatusReady || task.ConsecutiveFailures != 0 {
			t.Errorf("card %s is %s with %d failures", id, task.Status, task.ConsecutiveFailures)
		}
	}
	if spared != 4 { // two cards died twice, the third once, which showed it
		t.Errorf("%d failures were taken back", spared)
	}
	first.close()
	second := h.dispatcher()
	r, err := second.Tick(context.Background())
	must(t, err)
	if len(r.Spawned) != 0 || r.Held[LaneBackoff] != len(ids) {
		t.Errorf("after a restart: started %v, held %v", r.Spawned, r.Held)
	}
	if was, is := first.health["fail"], second.health["fail"]; is == nil || is.until.Sub(was.until).Abs() > 2*time.Second {
		t.Errorf("waits until %+v, before the restart until %v", is, was.until)
	}
}
