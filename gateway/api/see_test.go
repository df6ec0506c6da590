package api

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"gatewayd/kanban"
)

func TestWhatIsSeenOfABoardOverHTTP(t *testing.T) {
	boards := newShelf(t)
	h, _ := plain(func(o *Options) { o.Boards, o.Dispatch, o.Lanes = boards, &bell{}, []string{"idle"} })
	ask(h, "POST", "/api/boards", `{"slug":"plans"}`)
	task, _ := decoded(t, ask(h, "POST", "/api/boards/plans/tasks", `{"title":"first","assignee":"build"}`))["task"].(map[string]any)
	id, _ := task["id"].(string)

	log := decoded(t, ask(h, "GET", "/api/boards/plans/tasks/"+id+"/log", ""))
	if log["task_id"] != id || log["exists"] != false || log["size_bytes"] != 0.0 || log["content"] != "" || log["truncated"] != false {
		t.Errorf("no log: %v", log)
	}
	path := boards.LogPath("plans", id)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("one\ntwo\xff\x1b[2J\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log = decoded(t, ask(h, "GET", "/api/boards/plans/tasks/"+id+"/log?tail=9", ""))
	if log["content"] != "two\ufffd\x1b[2J\n" || log["truncated"] != true || log["size_bytes"] != 13.0 || log["path"] != path {
		t.Errorf("log: %q", log)
	}
	for _, tail := range []string{"2000001", "-1", "x"} {
		refused(t, ask(h, "GET", "/api/boards/plans/tasks/"+id+"/log?tail="+tail, ""), http.StatusBadRequest, "invalid_value")
	}
	refused(t, ask(h, "GET", "/api/boards/plans/tasks/t_none/log", ""), http.StatusNotFound, "not_found")

	board, release, err := boards.Acquire(t.Context(), "plans")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	claim, err := board.Claim(t.Context(), id, kanban.Claimer{Lock: kanban.ClaimLock()})
	if err != nil {
		t.Fatal(err)
	}
	if err := board.Spawned(t.Context(), id, claim.Run.ID, os.Getpid(), "", ""); err != nil {
		t.Fatal(err)
	}
	active := decoded(t, ask(h, "GET", "/api/boards/plans/workers/active", ""))
	if rows, _ := active["workers"].([]any); active["count"] != 1.0 || len(rows) != 1 || rows[0].(map[string]any)["worker_pid"] != float64(os.Getpid()) || active["checked_at"] == nil {
		t.Errorf("workers: %v", active)
	}
	seen := decoded(t, ask(h, "GET", fmt.Sprintf("/api/boards/plans/runs/%d/inspect", claim.Run.ID), ""))
	if seen["alive"] != true || seen["memory_rss_bytes"].(float64) < 1<<20 || seen["num_fds"].(float64) < 3 || seen["num_threads"].(float64) < 1 || seen["cmdline"] == "" || seen["create_time"] == nil {
		t.Errorf("inspect: %v", seen)
	}
	refused(t, ask(h, "GET", "/api/boards/plans/runs/99/inspect", ""), http.StatusNotFound, "not_found")
	refused(t, ask(h, "GET", "/api/boards/plans/runs/x/inspect", ""), http.StatusBadRequest, "invalid_value")

	if stats := decoded(t, ask(h, "GET", "/api/boards/plans/stats", "")); stats["by_status"].(map[string]any)["running"] != 1.0 {
		t.Errorf("stats: %v", stats)
	}
	list, _ := decoded(t, ask(h, "GET", "/api/boards/plans/assignees", ""))["assignees"].([]any)
	if len(list) != 2 || list[0].(map[string]any)["on_disk"] != false || list[1].(map[string]any)["on_disk"] != true {
		t.Errorf("assignees: %v", list)
	}
	found := decoded(t, ask(h, "GET", "/api/boards/plans/diagnostics?severity=critical", ""))
	if found["count"] != 0.0 {
		t.Errorf("diagnostics: %v", found)
	}
	refused(t, ask(h, "GET", "/api/boards/plans/diagnostics?severity=dire", ""), http.StatusBadRequest, "invalid_value")
}

// contents is every file below a directory with what is in it.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			fmt.Fprintln(&out, path)
			return err
		}
		raw, err := os.ReadFile(path)
		fmt.Fprintf(&out, "%s %d %x\n", path, len(raw), sha256.Sum256(raw))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Whatever is asked of a board that is not whole, nothing is made and nothing written, by any route that there is.
func TestNoRouteWritesOrMakesABoardThatIsNotWhole(t *testing.T) {
	for name, content := range map[string][]byte{"corrupt": bytes.Repeat([]byte("no database "), 500), "empty": {}, "missing": nil} {
		boards := newShelf(t)
		path := boards.DBPath(kanban.DefaultSlug)
		if content != nil {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		h, _ := plain(func(o *Options) { o.Boards, o.Dispatch = boards, &bell{} })
		before, tried := contents(t, boards.Dir()), 0
		err := chi.Walk(h.(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			// why is the dispatcher's, which a bell plays here; switch writes which board is meant, and none
			if !strings.Contains(route, "{board}") || strings.HasSuffix(route, "/why") || strings.HasSuffix(route, "/switch") {
				return nil
			}
			for _, body := range []string{"", `{}`, `{"title":"x","reason":"x","body":"x","assignee":"x","parent_id":"t_1","child_id":"t_2","ids":["t_1"]}`} {
				if body == "" && method != "GET" {
					continue
				}
				at := strings.NewReplacer("{board}", "default", "{task}", "t_1", "{run}", "1").Replace(route)
				for strings.Contains(at, "{") {
					from, to := strings.Index(at, "{"), strings.Index(at, "}")
					at = at[:from] + "1" + at[to+1:]
				}
				w := ask(h, method, at, body)
				tried++
				if w.Code < 400 && route != "/api/boards/{board}" && !strings.HasSuffix(route, "/workflow") {
					t.Errorf("%s: %s %s: %d %s", name, method, at, w.Code, w.Body)
				}
				if w.Code >= 400 && decoded(t, w)["error"] == nil {
					t.Errorf("%s: %s %s: no words: %s", name, method, at, w.Body)
				}
				if after := contents(t, boards.Dir()); after != before {
					t.Fatalf("%s: %s %s changed the directory\nbefore:\n%safter:\n%s", name, method, at, before, after)
				}
			}
			return nil
		})
		if err != nil || tried < 20 {
			t.Errorf("%s: %d tried, %v", name, tried, err)
		}
	}
}
