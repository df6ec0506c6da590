package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatewayd/internal/sqlite"
)

const offline = "model: {provider: offline}\nagent: {shutdown_grace: 2s}\n"

// told counts how often a user's text stands in a session, live.
func (d *daemon) told(session, text string) (n int) {
	for _, r := range d.rows(session) {
		if r.Role == "user" && r.Content == text {
			n++
		}
	}
	return n
}

// speak says it until it is answered: a turn that met the loss ends in words, and the next one finds a store that is whole.
func (d *daemon) speak(session, text string) {
	d.t.Helper()
	var last error
	d.until("a turn is answered again", func() bool {
		last = d.say(session, text, nil)
		if last != nil && !strings.HasPrefix(last.Error(), "503 ") && !strings.HasPrefix(last.Error(), "500 ") {
			d.t.Fatalf("a refusal that is none of ours: %v", last)
		}
		return last == nil
	})
}

// check is how /health/detailed finds one part, "" where it does not know it.
func (d *daemon) check(name string) string {
	d.t.Helper()
	var health struct {
		Checks []struct{ Name, Status, Reason string }
	}
	d.call(http.MethodGet, "/health/detailed", nil, &health)
	for _, c := range health.Checks {
		if c.Name == name {
			return strings.TrimSpace(c.Status + " " + c.Reason)
		}
	}
	return ""
}

// Somebody deletes the -wal and the -shm under the daemon. It halts, captures what only its descriptors still hold,
// opens the file anew, takes back what is missing, and goes on in the same process.
func TestADaemonThatLosesItsWALGoesOnAndHasEveryRow(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t, offline))
	for i := range 3 {
		if err := d.say("s", fmt.Sprintf("before %d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	db := filepath.Join(d.home, "state.db")
	for _, side := range []string{"-wal", "-shm"} {
		if err := os.Remove(db + side); err != nil {
			t.Fatal(err)
		}
	}
	d.speak("s", "after")
	d.until("every acknowledged row is back", func() bool {
		return d.told("s", "before 0") == 1 && d.told("s", "before 1") == 1 && d.told("s", "before 2") == 1 && d.told("s", "after") >= 1
	})
	captures, err := sqlite.Captures(db)
	if err != nil || len(captures) != 1 {
		t.Errorf("captures: %v, %v", captures, err)
	}
	if how := d.check("state.db"); how != "ok" {
		t.Errorf("state.db is %s", how)
	}
	d.stop()
	if out, errs, code := cli(t, d.home, "sessions", "verify"); code != 0 {
		t.Errorf("verify: %d\n%s%s", code, out, errs)
	}
}

// Another file is put in the place of state.db. The daemon goes on with what lies there now; nothing of the old one is
// mixed into it.
func TestADaemonWhoseStateIsReplacedGoesOnWithTheNewFile(t *testing.T) {
	t.Parallel()
	other := start(t, newHome(t, offline))
	if err := other.say("theirs", "from the other home", nil); err != nil {
		t.Fatal(err)
	}
	other.stop()
	d := start(t, newHome(t, offline))
	if err := d.say("ours", "from this home", nil); err != nil {
		t.Fatal(err)
	}
	copyDatabase(t, filepath.Join(other.home, "state.db"), filepath.Join(d.home, "new.db"))
	if err := os.Rename(filepath.Join(d.home, "new.db"), filepath.Join(d.home, "state.db")); err != nil {
		t.Fatal(err)
	}
	d.speak("later", "after the replacement")
	if d.told("theirs", "from the other home") != 1 {
		t.Error("the new file is not read")
	}
	if err := d.try(http.MethodGet, "/api/sessions/ours/messages", nil, nil); err == nil {
		t.Error("rows of the old file are in the new one")
	}
	d.stop()
}

// A board's -wal is deleted under the daemon: cards are made again without a restart.
func TestABoardThatLosesItsWALHeals(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t, offline))
	if _, errs, code := cli(t, d.home, "kanban", "boards", "create", "default"); code != 0 {
		t.Fatal(errs)
	}
	d.call(http.MethodPost, "/api/boards/default/tasks", map[string]any{"title": "first"}, nil)
	d.until("the dispatcher has the board open and has seen the card", func() bool {
		var status struct {
			Dispatcher struct {
				Boards []struct {
					Board string
					Ready int
				}
			}
		}
		d.call(http.MethodGet, "/api/status", nil, &status)
		return len(status.Dispatcher.Boards) == 1 && status.Dispatcher.Boards[0].Ready == 1
	})
	d.call(http.MethodPost, "/api/boards/default/tasks", map[string]any{"title": "only in the -wal"}, nil)
	db := filepath.Join(d.home, "kanban.db")
	for _, side := range []string{"-wal", "-shm"} {
		if err := os.Remove(db + side); err != nil {
			t.Fatal(err)
		}
	}
	d.until("a card can be made again", func() bool {
		return d.try(http.MethodPost, "/api/boards/default/tasks", map[string]any{"title": "second"}, nil) == nil
	})
	if captures, err := sqlite.Captures(db); err != nil || len(captures) != 1 {
		t.Errorf("captures: %v, %v", captures, err)
	}
	var list struct{ Tasks []struct{ Title string } }
	d.call(http.MethodGet, "/api/boards/default/tasks", nil, &list)
	var titles []string
	for _, task := range list.Tasks {
		titles = append(titles, task.Title)
	}
	slices.Sort(titles)
	if got := strings.Join(titles, ", "); got != "first, only in the -wal, second" {
		t.Errorf("the cards are %s", got)
	}
	d.stop()
}

// copyDatabase copies a database that nobody has open, with what is only in its -wal.
func copyDatabase(t *testing.T, from, to string) {
	t.Helper()
	if _, err := os.Stat(from + "-wal"); err == nil {
		f, err := sqlite.Open(t.Context(), sqlite.Options{Path: from})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}
