package kanban

import (
	"errors"
	"testing"
)

func TestAWorkerRegistersOnlyForTheCurrentRun(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Assignee: "dev"})
	run := b.mustClaim(t, card.ID)
	if err := b.Register(t.Context(), card.ID, run, 77, "boot:1|2"); err != nil {
		t.Fatal(err)
	}
	if got := b.scalar(t, `SELECT t.worker_pid || ' ' || r.worker_pid || ' ' || r.worker_started_at || ' ' || e.payload FROM tasks t
		JOIN task_runs r ON r.id = t.current_run_id JOIN task_events e ON e.run_id = r.id AND e.kind = 'worker_registered'`); got != `77 77 boot:1|2 {"pid": 77, "started_at": "boot:1|2"}` {
		t.Errorf("%s", got)
	}
	if err := b.Block(t.Context(), card.ID, Block{Run: &run, Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	if err := b.Register(t.Context(), card.ID, run, 78, ""); !errors.Is(err, ErrStaleRun) {
		t.Errorf("a superseded worker registers: %v", err)
	}
}
