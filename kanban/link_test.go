package kanban

import (
	"slices"
	"testing"

	"gatewayd/internal/problem"
)

func TestLinkDemotesAndUnlinkFrees(t *testing.T) {
	b := newBoard(t)
	parent, child := b.make(t, NewTask{}), b.make(t, NewTask{})
	if err := b.Link(t.Context(), parent.ID, child.ID); err != nil {
		t.Fatal(err)
	}
	b.wantStatus(t, child.ID, StatusTodo)
	if p := b.lastPayload(t, child.ID, "dependency_wait"); p["demoted"] != true {
		t.Errorf("payload: %v", p)
	}
	if p := b.lastPayload(t, child.ID, "linked"); p["parent"] != parent.ID || p["child"] != child.ID {
		t.Errorf("payload: %v", p)
	}
	before := b.dump(t)
	if err := b.Link(t.Context(), parent.ID, child.ID); err != nil || b.dump(t) != before {
		t.Errorf("linking twice: %v", err)
	}
	if err := b.Unlink(t.Context(), parent.ID, child.ID); err != nil {
		t.Fatal(err)
	}
	b.wantStatus(t, child.ID, StatusReady)
	if kinds := b.kinds(t, child.ID); !slices.Equal(kinds[len(kinds)-2:], []string{"unlinked", "promoted"}) {
		t.Errorf("history: %v", kinds)
	}
	wantErr(t, b.Unlink(t.Context(), parent.ID, child.ID), ErrNotFound)
	b.invariants(t)
}

func TestLinkRefusesCycles(t *testing.T) {
	b := newBoard(t)
	a, c, d := b.make(t, NewTask{}), b.make(t, NewTask{}), b.make(t, NewTask{})
	for _, l := range []Link{{a.ID, c.ID}, {c.ID, d.ID}} {
		if err := b.Link(t.Context(), l.Parent, l.Child); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range []Link{{d.ID, a.ID}, {c.ID, a.ID}} {
		wantErr(t, b.Link(t.Context(), l.Parent, l.Child), ErrConflict)
	}
	if err := b.Link(t.Context(), a.ID, a.ID); !problem.Is(err, problem.Invalid) {
		t.Errorf("self: %v", err)
	}
	wantErr(t, b.Link(t.Context(), "t_none", a.ID), ErrNotFound)
	wantErr(t, b.Link(t.Context(), a.ID, "t_none"), ErrNotFound)
	if err := b.Link(t.Context(), a.ID, d.ID); err != nil {
		t.Errorf("a diamond is no cycle: %v", err)
	}
	b.invariants(t)
}

func TestLinkOfARunningChild(t *testing.T) {
	b := newBoard(t)
	parent, child := b.make(t, NewTask{}), b.make(t, NewTask{})
	run := b.mustClaim(t, child.ID)
	wantErr(t, b.Link(t.Context(), parent.ID, child.ID), ErrLiveClaim)
	wantErr(t, b.LinkAs(t.Context(), parent.ID, child.ID, run+1), ErrStaleRun)
	if err := b.LinkAs(t.Context(), parent.ID, child.ID, run); err != nil {
		t.Error(err)
	}
	b.wantStatus(t, child.ID, StatusRunning)
}

func TestPromotionIsForTodoOnly(t *testing.T) {
	b := newBoard(t)
	var ids []string
	for _, status := range Statuses() {
		card := b.make(t, NewTask{})
		b.sql(t, `UPDATE tasks SET status = ? WHERE id = ?`, string(status), card.ID)
		ids = append(ids, card.ID)
	}
	moved, err := b.Promote(t.Context())
	if err != nil || len(moved) != 1 || moved[0] != ids[1] {
		t.Errorf("promoted %v, %v", moved, err)
	}
	for i, status := range Statuses() {
		if status != StatusTodo {
			b.wantStatus(t, ids[i], status)
		}
	}
	stamp, err := b.LatestEvent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if moved, err := b.Promote(t.Context()); err != nil || moved != nil {
		t.Errorf("promoted again: %v, %v", moved, err)
	}
	if after, _ := b.LatestEvent(t.Context()); after != stamp {
		t.Error("a promotion of nothing wrote an event")
	}
	// A parent that was deleted holds nobody up.
	orphan := b.make(t, NewTask{})
	b.sql(t, `INSERT INTO task_links VALUES ('t_deleted0', ?)`, orphan.ID)
	b.sql(t, `UPDATE tasks SET status = 'todo' WHERE id = ?`, orphan.ID)
	if moved, err := b.Promote(t.Context()); err != nil || len(moved) != 1 {
		t.Errorf("orphan: %v, %v", moved, err)
	}
}
