package kanban

import (
	"slices"
	"testing"

	"gatewayd/internal/problem"
)

func TestAPurgedCardLeavesNothingButOneLine(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Title: "gone"}).ID
	child, other := b.make(t, NewTask{Parents: []string{card}}).ID, b.make(t, NewTask{}).ID
	if _, err := b.Comment(t.Context(), card, "ann", "hm"); err != nil {
		t.Fatal(err)
	}
	w := b.withWorker(t, card, Claimer{})
	for id, path := range map[string]string{card: "/both", other: "/both"} {
		b.sql(t, `INSERT INTO task_attachments (task_id, filename, stored_path, created_at) VALUES (?, 'f', ?, 1)`, id, path)
	}
	b.sql(t, `INSERT INTO task_attachments (task_id, filename, stored_path, created_at) VALUES (?, 'g', '/mine', 1)`, card)
	b.sql(t, `INSERT INTO kanban_notify_subs (task_id, platform, chat_id, created_at) VALUES (?, 'p', 'c', 1)`, card)
	if _, err := b.Purge(t.Context(), card); !problem.Is(err, problem.Conflict) {
		t.Errorf("purge of a running card: %v", err)
	}
	_, err := b.Delete(t.Context(), card)
	wantErr(t, err, ErrLiveClaim)
	if err := b.Archive(t.Context(), card); err != nil {
		t.Fatal(err)
	}
	_, err = b.Purge(t.Context(), card)
	wantErr(t, err, ErrLiveClaim)
	w.end()
	gone, err := b.Purge(t.Context(), card)
	if err != nil || !slices.Equal(gone, []string{"/mine"}) {
		t.Errorf("%v, %v", gone, err)
	}
	for _, of := range append(cardTables(), linksTable, tasksTable) {
		where := ` WHERE task_id = '` + card + `'`
		switch of.name {
		case "tasks":
			where = ` WHERE id = '` + card + `'`
		case "task_links":
			where = ` WHERE parent_id = '` + card + `' OR child_id = '` + card + `'`
		case "task_events":
			where += ` AND kind <> 'deleted'`
		}
		if n := b.scalar(t, `SELECT COUNT(*) FROM `+of.name+where); n != "0" {
			t.Errorf("%s keeps %s rows", of.name, n)
		}
	}
	if p := b.scalar(t, `SELECT payload FROM task_events WHERE kind = 'deleted'`); p != `{"title": "gone", "status": "archived"}` {
		t.Errorf("payload: %s", p)
	}
	b.wantStatus(t, child, StatusReady)
	b.invariants(t)
}

func TestADeletedParentHoldsNobodyUp(t *testing.T) {
	b := newBoard(t)
	for _, s := range Statuses() {
		card := b.inStatus(t, s)
		child := b.make(t, NewTask{Parents: []string{card}}).ID
		if _, err := b.Delete(t.Context(), card); err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if err := b.Edit(t.Context(), card, Edit{Title: new("other")}); !problem.Is(err, problem.NotFound) {
			t.Errorf("%s is still there: %v", s, err)
		}
		b.wantStatus(t, child, StatusReady)
	}
	b.invariants(t)
}

func TestATableWithRowsOfACardIsEmptiedWithIt(t *testing.T) {
	left := []string{tasksTable.name, linksTable.name, gwRunsTable.name, gwSubscriptionsTable.name, gwOutboxTable.name}
	for _, of := range cardTables() {
		left = append(left, of.name)
	}
	for _, of := range schemaTables() {
		if slices.ContainsFunc(of.columns, func(c column) bool { return c.name == "task_id" }) && !slices.Contains(left, of.name) {
			t.Errorf("table %s has rows of a card, and Delete does not know it", of.name)
		}
	}
}
