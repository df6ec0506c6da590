package e2e

import (
	"path/filepath"
	"testing"

	"gatewayd/internal/sqlite"
)

// Four processes try to claim each of the cards of one board: every card is claimed once, has one run and one event.
func TestFourProcessesClaimEachCardOnce(t *testing.T) {
	t.Parallel()
	cards := 300
	if *whole {
		cards = 2000
	}
	dir := t.TempDir()
	floor, err := sqlite.NewFloor(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer floor.Close()
	var syncs []float64
	for range 50 {
		syncs = append(syncs, micros(t, floor.Overwrite))
	}
	path := filepath.Join(dir, "four.db")
	rate, twice := claimRace(t, path, 4, cards)
	if twice != 0 {
		t.Errorf("%d cards were claimed twice", twice)
	}
	if odd := foreign(t, path, "SELECT task_id FROM task_events WHERE kind = 'claimed' GROUP BY task_id HAVING count(*) <> 1",
		"SELECT id FROM tasks WHERE status <> 'running' OR current_run_id IS NULL"); len(odd) > 0 {
		t.Errorf("cards without exactly one claim: %v", odd)
	}
	t.Logf("%d cards, %.0f claims/s, a claim every %.2f × (overwrite + fdatasync)", cards, rate, 1e6/rate/median(syncs))
}
