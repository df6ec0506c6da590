package tools

import (
	"strings"
	"testing"
)

func TestNothingThatIsStoredHoldsASecret(t *testing.T) {
	h := newHouse(t)
	card, d := h.worker(t)
	d.Secrets = func() []string { return []string{"correcthorse"} }
	secret := "ghp_" + strings.Repeat("Ab3", 14)
	did(t, d, "kanban_comment", `{"body":"use `+secret+`"}`)
	did(t, d, "kanban_heartbeat", `{"note":"with `+secret+`"}`)
	did(t, d, "kanban_create", `{"title":"t","assignee":"coder","body":"`+secret+`"}`)
	did(t, d, "kanban_complete", `{"summary":"`+secret+`","result":"correcthorse","metadata":{"a":["`+secret+`",{"b":"`+secret+`"}]}}`)
	detail := h.show(t, card)
	text, err := h.board().Context(t.Context(), card)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range append([]string{text, detail.Task.Result, string(detail.Runs[0].Metadata), detail.Runs[0].Summary}, bodies(t, h)...) {
		if strings.Contains(part, secret) || strings.Contains(part, "correcthorse") {
			t.Errorf("stored: %s", part)
		}
	}
}

func bodies(t *testing.T, h *house) (all []string) {
	t.Helper()
	for _, card := range mustList(t, h) {
		all = append(all, card.Body)
		for _, e := range h.show(t, card.ID).Events {
			all = append(all, string(e.Payload))
		}
	}
	return all
}
