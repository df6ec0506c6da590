package e2e

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/sqlite"
)

// fixture copies a database file that the Python original has written, or skips aloud.
func fixture(t *testing.T, name, to string) {
	t.Helper()
	dir := os.Getenv("GATEWAYD_FIXTURES")
	if dir == "" {
		t.Skip("GATEWAYD_FIXTURES is not set: boards written by the Python original are NOT tested")
	}
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// foreign reads or changes a database through a connection that knows nothing of boards.
func foreign(t *testing.T, path string, statements ...string) []string {
	t.Helper()
	c, err := sqlite.OpenBare(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var values []string
	for _, sql := range statements {
		s, _, err := c.Prepare(sql)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		for s.Step() {
			values = append(values, s.ColumnText(0))
		}
		if err := s.Close(); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	return values
}

type card struct{ ID, Title, Assignee, Status string }

func (d *daemon) cards(board string) map[string]card {
	d.t.Helper()
	var list struct{ Tasks []card }
	d.call(http.MethodGet, "/api/boards/"+board+"/tasks", nil, &list)
	byID := map[string]card{}
	for _, c := range list.Tasks {
		byID[c.ID] = c
	}
	return byID
}

// Boards of several vintages, written by the Python original, live under our daemon: every card is listed, ready
// ones are claimed and completed by real workers, and what we do not know stays as it is.
func TestBoardsOfTheOriginalAreServed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ cards, ready int }{
		"kanban_0140.db": {40, 16}, "kanban_0170.db": {61, 28},
	} {
		t.Run(name, func(t *testing.T) {
			probe := filepath.Join(t.TempDir(), "probe.db")
			fixture(t, name, probe)
			lanes := lanesFor(foreign(t, probe, "SELECT DISTINCT assignee FROM tasks WHERE assignee IS NOT NULL"))
			home := newHome(t, "model: {provider: offline}\nkanban:\n  max_in_progress: 8\n  lanes:\n"+lanes)
			path := filepath.Join(home, "kanban.db")
			fixture(t, name, path)
			foreign(t, path, "ALTER TABLE tasks ADD COLUMN future_column TEXT DEFAULT 'kept'",
				"UPDATE tasks SET future_column = 'of ' || id", "CREATE TABLE future_table (x)", "INSERT INTO future_table VALUES (42)")
			before := foreign(t, path, "SELECT id || '|' || title || '|' || coalesce(body,'') || '|' || created_at FROM tasks ORDER BY id",
				"SELECT author || '|' || body FROM task_comments ORDER BY id", "SELECT parent_id || child_id FROM task_links ORDER BY 1")
			ready := foreign(t, path, "SELECT id FROM tasks WHERE status='ready' AND assignee IS NOT NULL")

			d := start(t, home)
			if got := len(d.cards("default")) + archived(t, path); got != want.cards {
				t.Errorf("%d cards listed, the file holds %d", got, want.cards)
			}
			d.until("every ready card of a lane is done", func() bool {
				cards := d.cards("default")
				for _, id := range ready {
					if cards[id].Status != "done" {
						return false
					}
				}
				return true
			})
			d.stop()

			after := foreign(t, path, "SELECT id || '|' || title || '|' || coalesce(body,'') || '|' || created_at FROM tasks ORDER BY id",
				"SELECT author || '|' || body FROM task_comments ORDER BY id", "SELECT parent_id || child_id FROM task_links ORDER BY 1")
			if fmt.Sprint(before) != fmt.Sprint(after) {
				t.Error("a card, a comment or a link changed or got lost")
			}
			if odd := foreign(t, path, "SELECT id FROM tasks WHERE future_column <> 'of ' || id", "SELECT x FROM future_table WHERE x <> 42"); len(odd) > 0 {
				t.Errorf("what we do not know changed at %v", odd)
			}
			once := foreign(t, path, "SELECT task_id FROM task_events WHERE kind='completed' AND task_id IN ('"+strings.Join(ready, "','")+"') GROUP BY task_id HAVING count(*) <> 1")
			if len(once) > 0 {
				t.Errorf("cards completed more than once: %v", once)
			}
			if check := foreign(t, path, "PRAGMA integrity_check"); check[0] != "ok" {
				t.Errorf("integrity: %v", check)
			}
		})
	}
}

func archived(t *testing.T, path string) int {
	return len(foreign(t, path, "SELECT id FROM tasks WHERE status='archived'"))
}

func lanesFor(assignees []string) string {
	var yaml strings.Builder
	for _, name := range assignees {
		fmt.Fprintf(&yaml, "    %q: {preset: command, argv: [sh, -c, 'true']}\n", name)
	}
	return yaml.String()
}

// A damaged board is refused and named, stays as it is to the byte, and holds nobody else up.
func TestDamagedBoardsAreLeftAlone(t *testing.T) {
	t.Parallel()
	home := newHome(t, "model: {provider: offline}\nkanban:\n  lanes:\n    echo: {preset: command, argv: [sh, -c, 'true']}\n")
	digests := map[string][32]byte{}
	for slug, name := range map[string]string{"torn": "kanban_0170_torn.db", "tls": "kanban_0170_tls.db"} {
		path := filepath.Join(home, "kanban", "boards", slug, "kanban.db")
		fixture(t, name, path)
		digests[path] = digest(t, path)
	}
	if _, errs, code := cli(t, home, "kanban", "boards", "create", "good"); code != 0 {
		t.Fatal(errs)
	}
	d := start(t, home)
	var made struct{ Task card }
	d.call(http.MethodPost, "/api/boards/good/tasks", map[string]any{"title": "a card beside two damaged boards", "assignee": "echo"}, &made)
	d.until("the good board's card is done", func() bool { return d.cards("good")[made.Task.ID].Status == "done" })

	status, errs, code := cli(t, home, "status")
	if code != 0 {
		t.Fatal(errs)
	}
	for _, slug := range []string{"torn", "tls"} {
		if !strings.Contains(status, slug) || !strings.Contains(status, "disabled") {
			t.Errorf("status does not say that board %s is disabled:\n%s", slug, status)
		}
	}
	d.stop()
	for path, want := range digests {
		if digest(t, path) != want {
			t.Errorf("%s was changed", path)
		}
	}
	if n := strings.Count(d.log.String(), `"level":"ERROR"`); n != 2 {
		t.Errorf("%d errors logged, want one for each damaged board", n)
	}
}

func digest(t *testing.T, path string) [32]byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(raw)
}
