package kanban

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// peerClaims is what a Hermes process does to claim each card, statement by statement, for a plain SQLite program.
func peerClaims(cards []string, lock string) string {
	var b strings.Builder
	b.WriteString(".timeout 120000\nPRAGMA synchronous = NORMAL;\n")
	for _, id := range cards {
		fmt.Fprintf(&b, `BEGIN IMMEDIATE;
UPDATE tasks SET status = 'running', claim_lock = '%[2]s', claim_expires = 1, started_at = COALESCE(started_at, 1)
  WHERE id = '%[1]s' AND status = 'ready' AND claim_lock IS NULL;
INSERT INTO task_runs (task_id, status, claim_lock, claim_expires, started_at) SELECT '%[1]s', 'running', '%[2]s', 1, 1 WHERE changes() = 1;
UPDATE tasks SET current_run_id = (SELECT id FROM task_runs WHERE task_id = '%[1]s' AND claim_lock = '%[2]s') WHERE id = '%[1]s' AND claim_lock = '%[2]s';
INSERT INTO task_events (task_id, run_id, kind, payload, created_at) SELECT '%[1]s', current_run_id, 'claimed', '{"lock": "%[2]s"}', 1 FROM tasks
  WHERE id = '%[1]s' AND claim_lock = '%[2]s';
COMMIT;
`, id, lock)
	}
	return b.String()
}

func TestClaimsBesideAnotherProgramHaveOneWinnerEach(t *testing.T) {
	sqlite3, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("no sqlite3 program is installed: claims beside a program that is not ours are not tested")
	}
	b := newBoard(t)
	var cards []string
	for range 30 {
		cards = append(cards, b.make(t, NewTask{Assignee: "dev"}).ID)
	}
	const sides = 3
	done := make(chan error, 2*sides)
	for i := range sides {
		mine := openBoard(t, Options{Path: b.Path()})
		go func() {
			for _, id := range cards {
				if _, err := mine.Claim(t.Context(), id, Claimer{Lock: fmt.Sprint("go:", i)}); err != nil && !errors.Is(err, ErrTaken) {
					done <- err
					return
				}
			}
			done <- nil
		}()
		go func() {
			cmd := exec.Command(sqlite3, "-bail", b.Path())
			cmd.Stdin = strings.NewReader(peerClaims(cards, fmt.Sprint("peer:", i)))
			if out, err := cmd.CombinedOutput(); err != nil {
				done <- fmt.Errorf("%w: %s", err, out)
				return
			}
			done <- nil
		}()
	}
	for range 2 * sides {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := b.scalar(t, `SELECT COUNT(*) || ' ' || COUNT(DISTINCT task_id) || ' ' || (SELECT COUNT(*) FROM task_events WHERE kind = 'claimed') FROM task_runs`); got != "30 30 30" {
		t.Errorf("runs, cards with a run, claimed events: %s", got)
	}
	if got := b.scalar(t, `PRAGMA integrity_check`); got != "ok" {
		t.Errorf("integrity_check: %s", got)
	}
	b.invariants(t)
}
