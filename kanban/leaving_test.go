package kanban

import (
	"slices"
	"testing"

	"gatewayd/internal/enclosure"
)

func TestDiscardedContentIsToldOnceAndOnlyWhenItIsWorthIt(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	for _, c := range []enclosure.Contents{{Bytes: 1023, Files: 1}, {Bytes: 1024, Files: 2, Sample: []string{"a\xff"}}, {Bytes: 1024, Files: 2, Sample: []string{"a\xff"}}} {
		if _, err := b.NoteDiscarded(t.Context(), card.ID, "/w/x", c); err != nil {
			t.Fatal(err)
		}
	}
	kinds := b.kinds(t, card.ID)
	if !slices.Equal(kinds, []string{"created", "workspace_discarded_content"}) {
		t.Errorf("%v", kinds)
	}
	if p := b.lastPayload(t, card.ID, "workspace_discarded_content"); p["total_bytes"] != 1024.0 || p["file_count"] != 2.0 || p["path"] != "/w/x" {
		t.Errorf("%v", p)
	}
}

func TestAWorkspaceMayGoWhenItsCardAndAllChildrenAreOver(t *testing.T) {
	b := newBoard(t)
	parent := b.make(t, NewTask{})
	for _, status := range []string{"done", "archived", "failed", "cancelled", "todo"} {
		child := b.make(t, NewTask{Title: status, Parents: []string{parent.ID}})
		b.sql(t, `UPDATE tasks SET status = ? WHERE id = ?`, status, child.ID)
	}
	left := func() bool {
		list, err := b.LeavingScratch(t.Context(), parent.ID, "t_none")
		if err != nil {
			t.Fatal(err)
		}
		return len(list) == 1
	}
	if left() {
		t.Error("an open card's workspace may go")
	}
	b.sql(t, `UPDATE tasks SET status = 'done' WHERE id = ?`, parent.ID)
	if left() {
		t.Error("it may go before an open child")
	}
	b.sql(t, `UPDATE tasks SET status = 'done' WHERE status = 'todo'`)
	if !left() {
		t.Error("it stays for children that are over")
	}
	b.sql(t, `UPDATE tasks SET workspace_kind = 'dir', workspace_path = '/srv' WHERE id = ?`, parent.ID)
	if left() {
		t.Error("a directory that is not ours may go")
	}
}

func TestAWorktreeMayGoWhenNoCardNeedsItsPlace(t *testing.T) {
	b := newBoard(t)
	in := NewTask{WorkspaceKind: WorkspaceWorktree, WorkspacePath: "/r/tree", BranchName: "wt/x"}
	first, second := b.make(t, in), b.make(t, in)
	place := Leaving{Task: first.ID, Kind: WorkspaceWorktree, Path: "/r/tree", Branch: "wt/x"}
	expect := func(when string, want bool) {
		t.Helper()
		if left, err := b.WorktreeLeft(t.Context(), place); err != nil || left != want {
			t.Errorf("%s: may go is %v, %v", when, left, err)
		}
	}
	b.sql(t, `UPDATE tasks SET status = 'done' WHERE id = ?`, first.ID)
	expect("another card works there", false)
	b.sql(t, `UPDATE tasks SET status = 'done' WHERE id = ?`, second.ID)
	expect("both are over", true)
	if _, err := b.Delete(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	expect("it was deleted", true)
	list, err := b.LeavingWorktrees(t.Context())
	if err != nil || !slices.Contains(list, place) {
		t.Errorf("the deleted card's is forgotten: %v, %v", list, err)
	}
	b.sql(t, `UPDATE tasks SET status = 'ready' WHERE id = ?`, second.ID)
	expect("the other card was reopened", false)
}
