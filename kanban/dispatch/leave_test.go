package dispatch

import (
	"context"
	"errors"
	"slices"
	"testing"

	"gatewayd/kanban"
)

// A daemon has the board open and looks at it all the time.
func TestABoardThatIsServedLeavesWhenNothingRuns(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	plans := h.board("plans")
	busy := card(t, plans, "sleep")
	d := h.dispatcher()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	wait(t, "the worker", isStatus(t, plans, busy, kanban.StatusRunning))
	hands := kanban.Hands{
		Open: func(ctx context.Context, slug kanban.Slug) (*kanban.Board, func(), error) {
			return h.acquire(ctx, h.root.DBPath(slug))
		},
		Close: func(ctx context.Context, dir string) error {
			d.LetGo("plans")
			return h.reg.CloseAllUnder(ctx, dir)
		},
	}
	if _, err := h.root.Archive(t.Context(), "plans", hands); !errors.Is(err, kanban.ErrConflict) {
		t.Fatalf("with a running card: %v", err)
	}
	must(t, plans.Block(t.Context(), busy, kanban.Block{Reason: "enough"}))
	must(t, plans.Close())
	_, err := h.root.Archive(t.Context(), "plans", hands)
	must(t, err)
	d.TakeBack("plans")
	wait(t, "the board to be gone", func() bool {
		return !slices.ContainsFunc(d.Status().Boards, func(s BoardStatus) bool { return s.Slug == "plans" })
	})
	wait(t, "the blocked card's worker to be gone", func() bool { return len(left(t, busy)) == 0 })
	wait(t, "its record to be forgotten", func() bool {
		records, err := h.reaper.Records()
		must(t, err)
		return len(records) == 0
	})
	id := card(t, b, "ok")
	wait(t, "the other board's card", isStatus(t, b, id, kanban.StatusDone))
	if h.log.count("level=ERROR") > 0 || h.log.count("still referenced") > 0 || !vanished(h.root.DBPath("plans")) {
		t.Errorf("%s", h.log.text())
	}
	cancel()
	must(t, <-ended)
}
