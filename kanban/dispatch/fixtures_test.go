package dispatch

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"gatewayd/kanban"
)

// Boards that the Python original wrote are served like our own, and its damaged ones are left as they are.
func TestBoardsOfTheOriginalAreServedOrLeftAlone(t *testing.T) {
	dir := os.Getenv("GATEWAYD_FIXTURES")
	if dir == "" {
		t.Skip("NOT TESTED: boards written by the Python original, because GATEWAYD_FIXTURES is unset")
	}
	for file, sound := range map[string]bool{"kanban_0140.db": true, "kanban_0170.db": true, "kanban_0170_tls.db": false, "kanban_0170_torn.db": false} {
		t.Run(file, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(dir, file))
			if os.IsNotExist(err) {
				t.Skipf("NOT TESTED: %s is not there", file)
			}
			must(t, err)
			h := newHouse(t)
			h.config.DefaultAssignee = ""
			path := h.root.DBPath(kanban.DefaultSlug)
			must(t, os.WriteFile(path, data, 0o600))
			d := h.dispatcher()
			if !sound {
				for range 2 {
					_, err := d.Tick(t.Context())
					must(t, err)
				}
				after, err := os.ReadFile(path)
				must(t, err)
				if st := boardStatus(t, d, kanban.DefaultSlug); st.State != "disabled" || string(after) != string(data) || h.log.count("level=ERROR") != 1 {
					t.Errorf("%+v, unchanged %v\n%s", st, string(after) == string(data), h.log.text())
				}
				return
			}
			_, err = d.Tick(t.Context())
			must(t, err)
			b, err := kanban.Open(context.Background(), kanban.Options{Path: path})
			must(t, err)
			defer b.Close()
			id := card(t, b, "ok")
			tickUntil(t, d, "a card on the original's board", isStatus(t, b, id, kanban.StatusDone))
			for _, task := range listAll(t, b) {
				if _, err := d.Why(t.Context(), kanban.DefaultSlug, task.ID); err != nil {
					t.Errorf("%s: %v", task.ID, err)
				}
			}
		})
	}
}

func listAll(t *testing.T, b *kanban.Board) []kanban.Task {
	t.Helper()
	list, err := b.List(t.Context(), kanban.Filter{})
	must(t, err)
	return list
}
