package dispatch

import (
	"testing"

	"gatewayd/kanban"
)

func TestABoardFullOfCardsHasTheFirstReasonOfEach(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	nobody := card(t, b, "human")
	ids := []string{
		nobody, card(t, b, ""), card(t, b, "ok", func(n *kanban.NewTask) { n.Triage = true }),
		card(t, b, "ok", func(n *kanban.NewTask) { n.Parents = []string{nobody} }),
		card(t, b, "ok", func(n *kanban.NewTask) { n.InitialStatus = kanban.StatusBlocked }),
	}
	d := h.dispatcher()
	_, err := d.Tick(t.Context())
	must(t, err)
	firsts, err := d.Firsts(t.Context(), kanban.DefaultSlug, append(ids, "t_gone0000"))
	must(t, err)
	if len(firsts) != len(ids) {
		t.Fatalf("%d reasons for %d cards: %v", len(firsts), len(ids), firsts)
	}
	for _, id := range ids {
		why, err := d.Why(t.Context(), kanban.DefaultSlug, id)
		must(t, err)
		if got, want := firsts[id], why.Holds[0]; got.Reason != want.Reason || got.Detail != want.Detail || got.Remedy != want.Remedy {
			t.Errorf("%s: the board says %v, the card says %v", id, got, want)
		}
	}
}
