package api

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"gatewayd/kanban"
)

// However many watch a board, one goroutine looks; it has ended when the last of them has left, and a look that is under way ends first.
func TestNobodyLooksAfterABoardThatNobodyWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looking, looks atomic.Int32
		look := func(ctx context.Context, _ kanban.Slug, _ int64) (int64, newEvents, error) {
			looks.Add(1)
			looking.Add(1)
			defer looking.Add(-1)
			<-ctx.Done() // the board's file is slow
			return 0, newEvents{}, ctx.Err()
		}
		var b boardWatch
		first, second := b.join("plans", look), b.join("plans", look)
		other := b.join("maps", look)
		if first != second || first == other {
			t.Error("two who watch one board do not share it")
		}
		synctest.Wait()
		if n := looking.Load(); n != 2 {
			t.Errorf("%d look after two boards", n)
		}
		b.leave("plans")
		synctest.Wait()
		if n := looking.Load(); n != 2 {
			t.Errorf("%d look when one of three has left", n)
		}
		b.leave("plans")
		if n := looking.Load(); n != 1 {
			t.Fatalf("%d look after one board when its last watcher has left the other", n)
		}
		b.leave("maps")
		if n := looking.Load(); n != 0 || len(b.boards) != 0 {
			t.Errorf("%d look, %d boards are kept", n, len(b.boards))
		}
		before := looks.Load()
		again := b.join("plans", look)
		synctest.Wait()
		if again == first || looks.Load() != before+1 {
			t.Error("who comes back is not looked for anew")
		}
		b.leave("plans")
	})
}
