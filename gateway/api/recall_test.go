package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
)

// held is boards of which one is open all the time, as in a daemon.
type held struct {
	*shelf
	board *kanban.Board
}

func (h held) Acquire(context.Context, kanban.Slug) (*kanban.Board, func(), error) {
	return h.board, func() {}, nil
}

// What is looked at again is answered from memory as long as nobody wrote, and is as it is now when somebody did: this process or another
// one, in either journal mode.
func TestACardThatIsLookedAtAgainIsAsItIsNow(t *testing.T) {
	for _, mode := range []string{"wal", "delete"} {
		shelf := newShelf(t)
		if _, err := shelf.Root.Create("b", kanban.Meta{}); err != nil {
			t.Fatal(err)
		}
		open := func() *kanban.Board {
			b, err := kanban.Open(t.Context(), kanban.Options{
				Path: shelf.DBPath("b"), Slug: "b", Create: true, Journal: sqlite.JournalConfig{Mode: mode}, Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = b.Close() })
			return b
		}
		own, other := open(), open()
		h, _ := plain(func(o *Options) { o.Boards = held{shelf, own} })
		made, err := own.Create(t.Context(), kanban.NewTask{Title: "t"})
		if err != nil {
			t.Fatal(err)
		}
		look := func() string {
			w := ask(h, http.MethodGet, "/api/boards/b/tasks/"+made.ID, "")
			if w.Code != http.StatusOK || w.Header().Get("Content-Length") != fmt.Sprint(w.Body.Len()) {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			return w.Body.String()
		}
		if first := look(); first != look() {
			t.Error("the same twice is not the same")
		}
		for i, board := range []*kanban.Board{own, other, own, other} {
			text := fmt.Sprintf("remark %d", i)
			if _, err := board.Comment(t.Context(), made.ID, "ann", text); err != nil {
				t.Fatal(err)
			}
			if got := look(); !strings.Contains(got, text) {
				t.Errorf("%s: %s is not seen: %s", mode, text, got)
			}
		}
		if _, err := other.Delete(t.Context(), made.ID); err != nil {
			t.Fatal(err)
		}
		refused(t, ask(h, http.MethodGet, "/api/boards/b/tasks/"+made.ID, ""), http.StatusNotFound, "not_found")
	}
}
