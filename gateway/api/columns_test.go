package api

import (
	"context"
	"net/http"
	"testing"

	"gatewayd/kanban"
)

// faces gives the cards of all columns by their id.
func faces(t *testing.T, h http.Handler) map[string]map[string]any {
	t.Helper()
	columns, _ := decoded(t, ask(h, "GET", "/api/boards/plans/columns", ""))["columns"].([]any)
	found := map[string]map[string]any{}
	for _, column := range columns {
		cards, _ := column.(map[string]any)["tasks"].([]any)
		for _, card := range cards {
			face, _ := card.(map[string]any)
			found[face["id"].(string)] = face
		}
	}
	return found
}

func TestABoardsCardsCarryTheirWarnings(t *testing.T) {
	asked := 0
	var ids []string
	diagnose := func(context.Context, *kanban.Board) ([]kanban.Diagnostic, error) {
		asked++
		return []kanban.Diagnostic{
			{Kind: kanban.DiagnosticFailures, Severity: kanban.SeverityCritical, Task: ids[0], Last: 7},
			{Kind: kanban.DiagnosticStranded, Severity: kanban.SeverityWarning, Task: ids[0], Last: 9},
			{Kind: kanban.DiagnosticPausedLong, Severity: kanban.SeverityWarning, Last: 9},
		}, nil
	}
	h, _ := plain(func(o *Options) { o.Boards, o.Dispatch, o.Diagnose = newShelf(t), &bell{}, diagnose })
	ask(h, "POST", "/api/boards", `{"slug":"plans"}`)
	for range 3 {
		task, _ := decoded(t, ask(h, "POST", "/api/boards/plans/tasks", `{"title":"a card"}`))["task"].(map[string]any)
		ids = append(ids, task["id"].(string))
	}
	cards := faces(t, h)
	w, _ := cards[ids[0]]["warnings"].(map[string]any)
	kinds, _ := w["kinds"].([]any)
	if w["count"] != 2.0 || w["latest_at"] != 9.0 || w["highest_severity"] != "critical" || len(kinds) != 2 || kinds[0] != kanban.DiagnosticFailures {
		t.Errorf("warnings: %v", w)
	}
	for _, id := range ids[1:] {
		if said, there := cards[id]["warnings"]; said != nil || !there {
			t.Errorf("a card without findings: %v, %v", said, there)
		}
	}
	if asked != 1 {
		t.Errorf("the board was diagnosed %d times for one picture of it", asked)
	}
}

// A card's warnings are the board's own findings where nobody dispatches.
func TestWarningsNeedNoDispatcher(t *testing.T) {
	boards := newShelf(t)
	h, _ := plain(func(o *Options) { o.Boards = boards })
	ask(h, "POST", "/api/boards", `{"slug":"plans"}`)
	task, _ := decoded(t, ask(h, "POST", "/api/boards/plans/tasks", `{"title":"a card"}`))["task"].(map[string]any)
	id := task["id"].(string)
	board, release, err := boards.Acquire(t.Context(), "plans")
	if err != nil {
		t.Fatal(err)
	}
	for range kanban.DefaultBlockCycleThreshold {
		if err := board.Block(t.Context(), id, kanban.Block{Reason: "which one?"}); err != nil {
			t.Fatal(err)
		}
		if err := board.Unblock(t.Context(), id, ""); err != nil {
			t.Fatal(err)
		}
	}
	release()
	w, _ := faces(t, h)[id]["warnings"].(map[string]any)
	if kinds, _ := w["kinds"].([]any); len(kinds) != 1 || kinds[0] != kanban.DiagnosticBlockCycling || w["highest_severity"] != "warning" {
		t.Errorf("warnings: %v", w)
	}
}
