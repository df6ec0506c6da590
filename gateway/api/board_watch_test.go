package api

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"gatewayd/kanban"
)

// However many watch a board, one goroutine looks; it has ended when the last of them has left, and a look that is under way ends first.
func TestNobodyLooksAfterABoardThatNobodyWatches(t *testing.T) {
	var looking atomic.Int32
	begun := make(chan kanban.Slug, 10)
	look := func(ctx context.Context, slug kanban.Slug, _ int64) (int64, newEvents, error) {
		looking.Add(1)
		defer looking.Add(-1)
		begun <- slug
		<-ctx.Done() // the board's file is slow
		return 0, newEvents{}, ctx.Err()
	}
	begins := func(slug kanban.Slug) {
		t.Helper()
		select {
		case got := <-begun:
			if got != slug {
				t.Errorf("%s is looked at, want %s", got, slug)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s is not looked at", slug)
		}
	}
	var b boardWatch
	first, second := b.join("plans", look), b.join("plans", look)
	begins("plans")
	other := b.join("maps", look)
	begins("maps")
	if first != second || first == other || len(begun) != 0 {
		t.Error("two who watch one board do not share it")
	}
	for _, step := range []struct {
		leaves kanban.Slug
		looked int32
	}{{"plans", 2}, {"plans", 1}, {"maps", 0}} {
		b.leave(step.leaves)
		if n := looking.Load(); n != step.looked || len(b.boards) != int(n) {
			t.Fatalf("%d look when one has left %s, and %d boards are kept; want %d", n, step.leaves, len(b.boards), step.looked)
		}
	}
	if again := b.join("plans", look); again == first {
		t.Error("who comes back watches a board that nobody looks at")
	}
	begins("plans")
	b.leave("plans")
}
