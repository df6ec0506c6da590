package dispatch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
)

// manyBoards makes a house of boards with finished cards, which is what boards mostly hold.
func manyBoards(b *testing.B, boards, cards int) (*house, *Dispatcher, []*kanban.Board) {
	h := newHouse(b)
	var list []*kanban.Board
	for i := range boards {
		board := h.board(kanban.Slug(fmt.Sprintf("b%03d", i)))
		err := board.File().Write(context.Background(), sqlite.Op{Label: "fill", Do: func(tx *sqlite.Tx) error {
			for c := range cards {
				if _, err := tx.Exec(`INSERT INTO tasks (id, title, status, created_at, assignee) VALUES (?, 'x', 'done', 1, 'ok')`, fmt.Sprintf("t_%08d", c)); err != nil {
					return err
				}
			}
			return nil
		}})
		must(b, err)
		list = append(list, board)
	}
	d := h.dispatcher()
	for range 3 {
		_, err := d.Tick(context.Background())
		must(b, err)
	}
	past := time.Now().Add(-time.Hour) // a directory that just changed is listed again for a moment
	must(b, os.Chtimes(filepath.Join(h.dir, "kanban", "boards"), past, past))
	d.locked(context.Background(), false)
	return h, d, list
}

// BenchmarkTick100Boards is the tick over 100 boards of 1,000 cards: nothing changed, and every board changed.
func BenchmarkTick100Boards(b *testing.B) {
	_, d, boards := manyBoards(b, 100, 1000)
	tick := func() *pass {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.tick(context.Background(), false)
	}
	b.Run("quiet", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if p := tick(); p.Unchanged < 100 {
				b.Fatalf("%d unchanged", p.Unchanged)
			}
		}
	})
	b.Run("poll", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if d.changed() {
				b.Fatal("something changed")
			}
		}
	})
	b.Run("changed", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			for _, board := range boards {
				must(b, board.File().Write(context.Background(), sqlite.Op{Label: "touch", Do: func(tx *sqlite.Tx) error {
					_, err := tx.Exec(`UPDATE tasks SET priority = priority + 1 WHERE id = 't_00000001'`)
					return err
				}}))
			}
			b.StartTimer()
			if p := tick(); p.Unchanged > 1 {
				b.Fatalf("%d unchanged", p.Unchanged)
			}
		}
	})
}

// BenchmarkCreatedToRunning is the time from a card's creation to its worker's start, in the process with Wake and
// as from another process without.
func BenchmarkCreatedToRunning(b *testing.B) {
	for _, wakes := range []bool{true, false} {
		b.Run(fmt.Sprintf("wake=%v", wakes), func(b *testing.B) {
			h := newHouse(b)
			h.config.MaxInProgress = 0
			board := h.board(kanban.DefaultSlug)
			d := h.dispatcher()
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			go func() { ended <- d.Run(ctx) }()
			wait(b, "the first tick", func() bool { return d.Status().Ticks > 0 })
			var times []time.Duration
			for b.Loop() {
				begin := time.Now()
				id := card(b, board, "ok")
				if wakes {
					d.Wake(kanban.DefaultSlug)
				}
				wait(b, "the worker", func() bool { return events(b, board, id, "spawned") == 1 })
				times = append(times, time.Since(begin))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
			cancel()
			must(b, <-ended)
		})
	}
}
