package dispatch

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatewayd/kanban"
)

// The survey passes over the lists that cannot hold anything; what a tick decides by must be the lists themselves.
func TestASurveyFindsWhatTheListsHold(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	card(t, b, "human", func(n *kanban.NewTask) { n.Parents = []string{card(t, b, "human")} })
	ids := []string{card(t, b, "ok"), card(t, b, "ok")}
	for _, status := range append(kanban.Statuses(), "pondering") {
		for n := range len(ids) {
			set(t, b, `UPDATE tasks SET status = 'done'`)
			for _, id := range ids[:n+1] {
				set(t, b, `UPDATE tasks SET status = ? WHERE id = ?`, string(status), id)
			}
			got, err := b.Survey(t.Context())
			must(t, err)
			var want kanban.Survey
			want.Running, err = b.Running(t.Context())
			must(t, err)
			want.Ready, err = b.Ready(t.Context())
			must(t, err)
			promoted, err := b.Promote(t.Context())
			must(t, err)
			want.Promotable = len(promoted) > 0
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%d cards are %s: (-lists +survey)\n%s", n+1, status, diff)
			}
		}
	}
}
