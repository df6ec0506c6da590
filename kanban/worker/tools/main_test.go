package tools

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"gatewayd/kanban"
)

// house is a root with boards that stay open.
type house struct {
	*kanban.Root
	held map[kanban.Slug]*kanban.Board
}

func (h *house) Acquire(_ context.Context, slug kanban.Slug) (*kanban.Board, func(), error) {
	board := h.held[slug]
	if board == nil {
		return nil, nil, fs.ErrNotExist
	}
	return board, func() {}, nil
}

func newHouse(t *testing.T, slugs ...kanban.Slug) *house {
	t.Helper()
	root, err := kanban.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &house{Root: root, held: map[kanban.Slug]*kanban.Board{}}
	for _, slug := range append([]kanban.Slug{kanban.DefaultSlug}, slugs...) {
		if slug != kanban.DefaultSlug {
			if _, err := root.Create(slug, kanban.Meta{}); err != nil {
				t.Fatal(err)
			}
		}
		board, err := kanban.Open(t.Context(), kanban.Options{Path: root.DBPath(slug), Slug: slug, Create: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = board.Close() })
		h.held[slug] = board
	}
	return h
}

func (h *house) board() *kanban.Board { return h.held[kanban.DefaultSlug] }

func (h *house) make(t *testing.T, card kanban.NewTask) string {
	t.Helper()
	if card.Title == "" {
		card.Title = "work"
	}
	made, err := h.board().Create(t.Context(), card)
	if err != nil {
		t.Fatal(err)
	}
	return made.ID
}

// worker gives a card that is running and the desk of its worker.
func (h *house) worker(t *testing.T) (card string, desk *Desk) {
	t.Helper()
	card = h.make(t, kanban.NewTask{Assignee: "coder"})
	claim, err := h.board().Claim(t.Context(), card, kanban.Claimer{Lock: kanban.ClaimLock(), TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	run := claim.Run
	return card, &Desk{Boards: h, ClaimTTL: time.Minute, Worker: &kanban.Fence{
		Board: kanban.DefaultSlug, Task: card, Run: run.ID, Started: run.StartedAt, Lock: run.ClaimLock,
	}}
}

// ask sends arguments as a model would and gives the answer.
func ask(t *testing.T, d *Desk, tool, args string) Answer {
	t.Helper()
	a := d.Call(t.Context(), tool, json.RawMessage(args))
	var back map[string]any
	if err := json.Unmarshal([]byte(a.Text()), &back); err != nil {
		t.Fatalf("%s answers no JSON object: %v: %s", tool, err, a.Text())
	}
	if ok, failed := back["ok"] == true, back["error"] != nil; ok == failed || failed != (a.Err != nil) {
		t.Errorf("%s is neither done nor refused: %s", tool, a.Text())
	}
	return a
}

func did(t *testing.T, d *Desk, tool, args string) map[string]any {
	t.Helper()
	a := ask(t, d, tool, args)
	if a.Err != nil {
		t.Fatalf("%s %s: %v", tool, args, a.Err)
	}
	return a.Body
}

// refused checks that a call changed nothing and says so.
func refused(t *testing.T, d *Desk, tool, args, why string) error {
	t.Helper()
	a := ask(t, d, tool, args)
	if a.Err == nil {
		t.Errorf("%s %s was done: %s", tool, args, a.Text())
		return nil
	}
	if text := a.Text(); !strings.Contains(text, why) || !strings.Contains(text, "nothing was changed") && !strings.Contains(text, "left as it is") {
		t.Errorf("%s %s: %s\nlacks %q, or does not say what became of the data", tool, args, text, why)
	}
	return a.Err
}

func (h *house) show(t *testing.T, card string) kanban.Detail {
	t.Helper()
	detail, err := h.board().Show(t.Context(), card)
	if err != nil {
		t.Fatal(err)
	}
	return detail
}

func stale(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, kanban.ErrStaleRun) {
		t.Errorf("error is %v, want the fence's", err)
	}
}
