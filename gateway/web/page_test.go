package web

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
)

// budgets are how many lines of script each part of the page may have: what needs more belongs on the server.
var budgets = map[string]int{"board.js": 250, "talk.js": 200}

const scriptLines = 500

func TestTheScriptsStaySmallAndOurOwn(t *testing.T) {
	all := 0
	entries, err := fs.ReadDir(staticFiles, "static")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		data, err := fs.ReadFile(staticFiles, "static/"+name)
		if err != nil {
			t.Fatal(err)
		}
		switch text := string(data); {
		case strings.HasSuffix(name, ".js"):
			lines := strings.Count(text, "\n")
			if all += lines; budgets[name] != 0 && lines > budgets[name] {
				t.Errorf("%s has %d lines, at most %d", name, lines, budgets[name])
			}
			for i, line := range strings.Split(text, "\n") {
				if len(line) > 260 {
					t.Errorf("%s:%d has %d characters: a budget of lines is not kept by long ones", name, i+1, len(line))
				}
			}
			if foreign := regexp.MustCompile(`(?i)jquery|react|vue|htmx|alpine|sourceMappingURL|\beval\(|new Function|document\.write|https?://`).FindString(text); foreign != "" {
				t.Errorf("%s has %q", name, foreign)
			}
		case strings.Contains(text, "@import"), regexp.MustCompile(`url\(["']?(https?:)?//`).MatchString(text):
			t.Errorf("%s fetches something", name)
		case len(data) > 64<<10:
			t.Errorf("%s has %d bytes", name, len(data))
		}
	}
	if all > scriptLines {
		t.Errorf("%d lines of script in all, at most %d", all, scriptLines)
	}
}

// page asks for a page with the key.
func (h *hall) page(path string, header ...string) (int, string) {
	h.t.Helper()
	w := get(h.Config.Handler, path, append([]string{"Authorization", "Bearer " + testKey}, header...)...)
	return w.Code, w.Body.String()
}

func TestACardsTitleIsTextAndNeverMarkup(t *testing.T) {
	h := newHall(t)
	id := h.card("<img src=x onerror=alert(1)>", kanban.StatusReady, func(n *kanban.NewTask) { n.Assignee, n.Tenant = "<b>", "<i>" })
	h.why[id] = Hold{Reason: "no_lane", Detail: "no lane is called <b>"}
	for _, path := range []string{"/boards/plans", "/boards/plans/tasks/" + id} {
		code, body := h.page(path)
		if code != http.StatusOK || strings.Contains(body, "<img") || strings.Contains(body, "called <b>") || !strings.Contains(body, "&lt;img src=x onerror=alert(1)&gt;") {
			t.Errorf("%s: %d, the title became markup or is gone", path, code)
		}
	}
}

func TestAPartIsThePageWithoutItsFrame(t *testing.T) {
	h := newHall(t)
	id := h.card("something", kanban.StatusReady)
	for path, part := range map[string]string{"/": "boards", "/boards/plans": "columns", "/boards/plans/tasks/" + id: "card", "/boards/plans/timeline": "timeline"} {
		_, before := h.page(path)
		code, alone := h.page(path, fragmentHeader, part)
		_, after := h.page(path) // ages are told in seconds: the part is that of one of the two
		if code != http.StatusOK || !strings.Contains(before+after, strings.TrimSpace(alone)) || strings.Contains(alone, "<html") {
			t.Errorf("%s: the part %s is not that of the page (%d)", path, part, code)
		}
		for _, none := range []string{"nothing", "base.html", "../" + part, strings.Repeat("x", 1000)} {
			if code, _ := h.page(path, fragmentHeader, none); code != http.StatusNotFound {
				t.Errorf("%s: the part %.20q is %d", path, none, code)
			}
		}
	}
}

func TestAPageOfABoardStaysSmallAndSaysHowManyMoreThereAre(t *testing.T) {
	h := newHall(t)
	statuses := shownStatuses(false)
	long := strings.Repeat("ü", 200)
	err := h.board.File().Write(t.Context(), sqlite.Op{Label: "fill", Do: func(tx *sqlite.Tx) error {
		for i := range 2000 {
			_, err := tx.Exec("INSERT INTO tasks (id, title, status, assignee, tenant, priority, created_at) VALUES (?, ?, ?, 'coder', 'maps', 3, 1)",
				fmt.Sprintf("t_%08x", i), fmt.Sprintf("%d measure the cache of the planner in the northern region and write down what it costs", i), string(statuses[i%len(statuses)]))
			if err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		h.why[fmt.Sprintf("t_%08x", i)] = Hold{Reason: "program_missing", Detail: "lane coder: program /usr/local/bin/claude is not there"}
	}
	code, body := h.page("/boards/plans")
	if code != http.StatusOK || len(body) > 150_000 {
		t.Errorf("%d: a board of 2,000 cards has %d bytes", code, len(body))
	}
	more := regexp.MustCompile(`<li class="more"><a href="([^"]+)">150 more of 250</a>`).FindStringSubmatch(body)
	if strings.Count(body, `class="more"`) != len(statuses) || more == nil {
		t.Fatalf("%d columns say that there is more", strings.Count(body, `class="more"`))
	}
	address, _, _ := strings.Cut(strings.ReplaceAll(more[1], "&amp;", "&"), "#")
	if _, body := h.page("/boards/plans" + address); strings.Count(body, `class="card"`) != columnMost*len(statuses)+150 {
		t.Errorf("further down there are %d cards", strings.Count(body, `class="card"`))
	}

	id := h.card(long, kanban.StatusReady, func(n *kanban.NewTask) { n.Body = strings.Repeat("# a\n\n", 100) })
	h.writeLog(id, strings.Repeat("a line of the log\n", 100_000))
	for i := range 300 {
		if _, err := h.board.Comment(t.Context(), id, "ana", fmt.Sprintf("%d: %s", i, long)); err != nil {
			t.Fatal(err)
		}
	}
	_, body = h.page("/boards/plans/tasks/" + id)
	if at := strings.Index(body, `<pre id="log"`); len(body)-len(body[at:])+len(body[at:][strings.Index(body[at:], "</pre>"):]) > 150_000 {
		t.Errorf("a card has %d bytes", len(body))
	}
}

func TestABoardThatCannotBeReadSaysWhatToDo(t *testing.T) {
	h := newHall(t)
	if _, err := h.shelf.Create(t.Context(), "broken", kanban.Meta{}); err != nil {
		t.Fatal(err)
	}
	path := h.shelf.DBPath("broken")
	for _, end := range []string{"-wal", "-shm"} {
		_ = os.Remove(path + end)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("this is no database ", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"", "columns"} {
		code, body := h.page("/boards/broken", fragmentHeader, part)
		if code != http.StatusServiceUnavailable || !strings.Contains(body, "What to do:") || !strings.Contains(body, "broken") {
			t.Errorf("part %q: %d %s", part, code, body)
		}
	}
	code, body := h.page("/")
	if code != http.StatusOK || !strings.Contains(body, "Cannot be read") || !strings.Contains(body, `href="/boards/plans"`) {
		t.Errorf("the list of boards: %d %s", code, body)
	}
	if code, body := h.page("/boards/nowhere"); code != http.StatusNotFound || !strings.Contains(body, "nowhere") {
		t.Errorf("a board that is not there: %d %s", code, body)
	}
}
