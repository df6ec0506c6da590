package dispatch

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gatewayd/internal/sqlite"
)

func TestQuarantineOpensWhenTheFileChangesOrTheTimerComes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kanban.db")
	write := func(name, text string) sqlite.Fingerprint {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return sqlite.TakeFingerprint(path)
	}
	bad := write(path, "bad")
	now := time.Unix(1_800_000_000, 0)
	var none *quarantine
	if none.gate(bad, now) != gateOpen {
		t.Fatal("a healthy board is gated")
	}
	q, first := none.failed(bad, "damaged", now)
	if !first || q.gate(bad, now.Add(299*time.Second)) != gateShut || q.gate(bad, now.Add(300*time.Second)) != gateRetry {
		t.Fatal("the first wait is not 300 s")
	}
	if q.gate(write(path+"-wal", "x"), now) != gateChanged {
		t.Fatal("a repair that only touched the -wal goes unseen")
	}
	waits := []time.Duration{600 * time.Second, 1200 * time.Second, 2400 * time.Second, time.Hour, time.Hour}
	for _, want := range waits {
		if q, first = q.failed(bad, "damaged", now); first || q.wait != want {
			t.Fatalf("wait %v, want %v; said again: %v", q.wait, want, first)
		}
	}
	other := write(path, "bad in another way")
	if q, first = q.failed(other, "damaged", now.Add(time.Hour)); !first || q.wait != quarantineFirst || !q.since.Equal(now) {
		t.Fatalf("a new file starts anew, but is disabled since the beginning: %+v", q)
	}
}
