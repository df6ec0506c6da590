package dispatch

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gatewayd/internal/procfs"
	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
)

// Boards that cannot be served cost no descriptor, however long the daemon looks at them and however often it tries them
// again, and one line each; the others go on.
func TestDescriptorsStayFlatOverTwoThousandTicksWithBadBoards(t *testing.T) {
	h := newHouse(t)
	bad := []kanban.Slug{"junk", "foreign", "directory", "short"}
	for _, slug := range bad {
		_, err := h.root.Create(slug, kanban.Meta{})
		must(t, err)
		must(t, os.MkdirAll(filepath.Dir(h.root.DBPath(slug)), 0o700))
	}
	spoil(t, h, "junk", bytes.Repeat([]byte("this is no database "), 500))
	notes, err := sqlite.OpenBare(h.root.DBPath("foreign"))
	must(t, err)
	must(t, notes.Exec("CREATE TABLE notes(text); INSERT INTO notes VALUES ('mine')"))
	must(t, notes.Close())
	must(t, os.Mkdir(h.root.DBPath("directory"), 0o700))
	spoil(t, h, "short", append([]byte("SQLite format 3\x00"), bytes.Repeat([]byte{1}, 2000)...))
	before := map[kanban.Slug]string{}
	for _, slug := range bad {
		raw, _ := os.ReadFile(h.root.DBPath(slug))
		before[slug] = string(raw)
	}
	good := h.board(kanban.DefaultSlug)
	d := h.dispatcher()
	tick := func(n int) {
		for range n {
			_, err := d.Tick(t.Context())
			must(t, err)
		}
	}
	first := card(t, good, "ok")
	tickUntil(t, d, "the good board's first card", isStatus(t, good, first, kanban.StatusDone))
	tick(20)
	flat, err := procfs.NumFDs(os.Getpid())
	must(t, err)
	for round := range 20 {
		tick(100)
		d.mu.Lock()
		for _, b := range d.boards {
			if b.bad != nil {
				b.bad.retryAt = time.Now() // as after the quarantine's time
			}
			if b.trouble != nil {
				b.due = time.Now()
			}
		}
		d.mu.Unlock()
		if round == 10 {
			id := card(t, good, "ok")
			tickUntil(t, d, "the good board's card", isStatus(t, good, id, kanban.StatusDone))
		}
	}
	tick(1)
	if now, err := procfs.NumFDs(os.Getpid()); err != nil || now > flat+2 {
		t.Errorf("%d descriptors after twenty ticks, %d after two thousand (%v)", flat, now, err)
	}
	if n := h.log.count("level=ERROR"); n != len(bad) {
		t.Errorf("%d ERROR lines for %d bad boards:\n%s", n, len(bad), h.log.text())
	}
	for _, slug := range bad {
		if raw, _ := os.ReadFile(h.root.DBPath(slug)); string(raw) != before[slug] {
			t.Errorf("board %s was written to", slug)
		}
	}
}
