package api

import (
	"net/http"
	"testing"

	"gatewayd/kanban"
)

func TestAModelIsClearedByItsFlag(t *testing.T) {
	h, _, _ := board(t)
	card := newCard(t, h, `{"title":"t","model_override":"m","provider_override":"p","reasoning_effort":"low"}`)
	path := "/api/boards/plans/tasks/" + card
	task := func(body string, status int) map[string]any {
		made, _ := wants(t, h, "PATCH", path, body, status)["task"].(map[string]any)
		return made
	}
	if got := task(`{"clear_reasoning":true,"clear_provider":true}`, http.StatusOK); got["reasoning_effort"] != nil || got["provider_override"] != nil || got["model_override"] != "m" {
		t.Errorf("after clear_reasoning and clear_provider: %v", got)
	}
	task(`{"clear_model":true,"model_override":"n"}`, http.StatusBadRequest)
	if got := task(`{"clear_model":true}`, http.StatusOK); got["model_override"] != nil {
		t.Errorf("after clear_model: %v", got["model_override"])
	}
}

func TestBlockingLeavesARemarkAndADryPromotionNothing(t *testing.T) {
	h, card, _ := board(t)
	path := "/api/boards/plans/tasks/" + card
	wants(t, h, "POST", path+"/block", `{"reason":"which one?","actor":"ann"}`, http.StatusOK)
	would := wants(t, h, "POST", path+"/promote", `{"dry_run":true}`, http.StatusOK)
	if p, _ := would["promotion"].(map[string]any); p["to"] != "ready" {
		t.Errorf("promotion: %v", would["promotion"])
	}
	shown := wants(t, h, "GET", path, "", http.StatusOK)
	comments, _ := shown["comments"].([]any)
	if task := shown["task"].(map[string]any); len(comments) != 1 || task["status"] != "blocked" {
		t.Errorf("comments %v of %v", comments, task["status"])
	}
}

func TestADefaultBoardWithoutAFileIsNotSwitchedTo(t *testing.T) {
	h, _ := plain(func(o *Options) { o.Boards = newShelf(t) })
	got := wants(t, h, "POST", "/api/boards/"+string(kanban.DefaultSlug)+"/switch", "", http.StatusNotFound)
	t.Log(got)
}
