package dispatch

import (
	"os"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
)

// with gives the board's shared handle to fn.
func (h *house) with(path string, fn func(*kanban.Board)) error {
	h.t.Helper()
	b, release, err := h.acquire(h.t.Context(), path)
	if err != nil {
		return err
	}
	defer release()
	fn(b)
	return nil
}

// Nothing but the dispatcher holds the board, so it alone must let go of what was lost and take what comes next.
func TestABoardThatLostItsWALIsTakenUpAgainAndLosesNoCard(t *testing.T) {
	for _, way := range []struct {
		name string
		do   func(path string) error
	}{
		{"wal and shm unlinked", func(path string) error { _ = os.Remove(path + "-shm"); return os.Remove(path + "-wal") }},
		{"wal renamed", func(path string) error { return os.Rename(path+"-wal", path+"-wal.old") }},
	} {
		t.Run(way.name, func(t *testing.T) {
			h := newHouse(t)
			b := h.board("lost")
			path := b.Path()
			first := card(t, b, "ok")
			must(t, b.Close())
			d := h.dispatcher()
			is := func(id string, want kanban.Status) func() bool {
				return func() (ok bool) {
					return h.with(path, func(b *kanban.Board) { ok = status(t, b, id) == want }) == nil && ok
				}
			}
			tickUntil(t, d, "the first card", is(first, kanban.StatusDone))

			var kept string
			must(t, h.with(path, func(b *kanban.Board) { kept = card(t, b, "nobody") }))
			must(t, way.do(path))
			must(t, h.with(path, func(b *kanban.Board) {
				if _, err := b.Create(t.Context(), kanban.NewTask{Title: "refused", Assignee: "ok"}); sqlite.ClassOf(err) != sqlite.LostWAL {
					t.Errorf("a card into the lost file: %v", err)
				}
			}))
			tickUntil(t, d, "the board to be well", func() (ok bool) {
				return h.with(path, func(b *kanban.Board) { ok = !b.Lost() }) == nil && ok
			})
			if !inFileOrCapture(t, h, path, kept) {
				t.Error("an acknowledged card is neither on the board nor in a capture")
			}
			var next string
			must(t, h.with(path, func(b *kanban.Board) { next = card(t, b, "ok") }))
			tickUntil(t, d, "the next card", is(next, kanban.StatusDone))
			if n := h.log.count("what it holds is captured"); n != 1 {
				t.Errorf("the loss was told %d times:\n%s", n, h.log.text())
			}
		})
	}
}

// inFileOrCapture looks for a card on the board, then in what was captured.
func inFileOrCapture(t *testing.T, h *house, path, id string) (found bool) {
	t.Helper()
	look := func(b *kanban.Board) {
		_, err := b.Task(t.Context(), id)
		found = found || err == nil
	}
	must(t, h.with(path, look))
	all, err := sqlite.Captures(path)
	must(t, err)
	for _, c := range all {
		replayed, err := sqlite.ReplayCapture(t.Context(), c, t.TempDir())
		must(t, err)
		b, err := kanban.Open(t.Context(), kanban.Options{Path: replayed, Slug: "lost"})
		must(t, err)
		look(b)
		must(t, b.Close())
	}
	return found
}

// While a part of the daemon still has the lost files open, the card that waits says so.
func TestALostBoardThatIsStillHeldSaysWhatItWaitsFor(t *testing.T) {
	h := newHouse(t)
	b := h.board("lost")
	path := b.Path()
	must(t, b.Close())
	d := h.dispatcher(func(o *Options) { o.BoardPatience = 300 * time.Millisecond })
	_, err := d.Tick(t.Context())
	must(t, err)
	held, release, err := h.acquire(t.Context(), path)
	must(t, err)
	must(t, os.Remove(path+"-wal"))
	if _, err := held.Create(t.Context(), kanban.NewTask{Title: "refused", Assignee: "ok"}); sqlite.ClassOf(err) != sqlite.LostWAL {
		t.Fatal(err)
	}
	r, err := d.Tick(t.Context())
	must(t, err)
	if len(r.Failed) != 1 || !strings.Contains(h.log.text(), "is still being healed") {
		t.Errorf("report %+v\n%s", r.Failed, h.log.text())
	}
	release()
	tickUntil(t, d, "the board to be well", func() (ok bool) {
		return h.with(path, func(b *kanban.Board) { ok = !b.Lost() }) == nil && ok
	})
}
