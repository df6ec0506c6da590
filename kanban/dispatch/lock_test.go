package dispatch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatewayd/kanban"
)

func TestALockThatCannotBeTakenSaysWhatToDoAndIsTriedAgain(t *testing.T) {
	for what, c := range map[string]struct {
		spoil func(dir string) error
		undo  string
	}{
		"is not a directory": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "kanban"), nil, 0o600) }, "kanban"},
		"is a directory":     {func(dir string) error { return os.MkdirAll(filepath.Join(dir, "kanban", ".dispatcher.lock"), 0o700) }, "kanban/.dispatcher.lock"},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHouse(t)
			h.config.Interval = 10 * time.Millisecond
			id := card(t, h.board(kanban.DefaultSlug), "human")
			_ = os.RemoveAll(filepath.Join(h.dir, "kanban"))
			must(t, c.spoil(h.dir))
			d := h.dispatcher()
			go func() { _ = d.Run(t.Context()) }()
			wait(t, "the status", func() bool { return d.Status().Outside != nil })
			hold := *d.Status().Outside
			if hold.Reason != NoDispatcher || !strings.Contains(hold.Detail, what) || hold.Remedy != "move "+filepath.Join(h.dir, c.undo)+" away; it is tried again by itself" {
				t.Errorf("%+v", hold)
			}
			why, err := d.Why(t.Context(), kanban.DefaultSlug, id)
			must(t, err)
			if got := reasons(why); len(got) != 2 || got[0] != NoDispatcher || got[1] != NoLane {
				t.Errorf("why says %v", why.Holds)
			}
			must(t, os.RemoveAll(filepath.Join(h.dir, c.undo)))
			wait(t, "the lock", func() bool { return d.Status().Outside == nil })
			if n := h.log.count("level=ERROR"); n != 1 || !strings.Contains(h.log.text(), "remedy=\"move ") {
				t.Errorf("%d ERROR lines:\n%s", n, h.log.text())
			}
		})
	}
}
