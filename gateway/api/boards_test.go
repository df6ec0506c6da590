package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"gatewayd/internal/problem"
	"gatewayd/kanban"
)

// shelf is the boards of a directory, opened for each request.
type shelf struct {
	*kanban.Root
	out    sync.RWMutex // read-locked by each who has a board
	closed bool
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	root, err := kanban.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	s := &shelf{Root: root}
	t.Cleanup(s.close)
	return s
}

// close waits for the boards that are out and gives no more: who looks after a board goes on for a moment when nobody watches it any more,
// and opening one makes files.
func (s *shelf) close() {
	s.out.Lock()
	defer s.out.Unlock()
	s.closed = true
}

func (s *shelf) open(ctx context.Context, slug kanban.Slug, create bool) (*kanban.Board, error) {
	return kanban.Open(ctx, kanban.Options{Path: s.DBPath(slug), Slug: slug, Create: create, Log: slog.New(slog.DiscardHandler)})
}

func (s *shelf) Create(ctx context.Context, slug kanban.Slug, meta kanban.Meta) (kanban.Info, error) {
	info, err := s.Root.Create(slug, meta)
	if err != nil {
		return kanban.Info{}, err
	}
	board, err := s.open(ctx, slug, true)
	if err != nil {
		return kanban.Info{}, err
	}
	defer board.Close()
	return info, nil // as it was before its file was made
}

func (s *shelf) Acquire(ctx context.Context, slug kanban.Slug) (*kanban.Board, func(), error) {
	s.out.RLock()
	if s.closed {
		s.out.RUnlock()
		return nil, nil, errors.New("the shelf is closed")
	}
	board, err := s.open(ctx, slug, false)
	if err != nil {
		s.out.RUnlock()
		return nil, nil, err
	}
	return board, func() { _ = board.Close(); s.out.RUnlock() }, nil
}

// bell is a Dispatch that counts its wakes.
type bell struct{ woken []kanban.Slug }

func (b *bell) Wake(slug kanban.Slug) { b.woken = append(b.woken, slug) }

func (b *bell) Now(context.Context) (any, error) { return map[string]any{"spawned": []any{}}, nil }

func (b *bell) Why(_ context.Context, slug kanban.Slug, task string) (any, error) {
	if task == "t_none" {
		return nil, &problem.Error{Kind: problem.NotFound, Thing: "card " + task, What: "is not on this board"}
	}
	return map[string]any{"board": slug, "task": task, "holds": []any{}}, nil
}

func TestBoardsAndCardsOverHTTP(t *testing.T) {
	dispatch := &bell{}
	boards := newShelf(t)
	h, _ := plain(func(o *Options) { o.Boards, o.Dispatch = boards, dispatch })

	w := ask(h, "POST", "/api/boards", `{"slug":"Plans","name":"Great Plans"}`)
	if board, _ := decoded(t, w)["board"].(map[string]any); w.Code != http.StatusCreated || board["slug"] != "plans" || board["name"] != "Great Plans" || board["has_file"] != true {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if list, _ := decoded(t, ask(h, "GET", "/api/boards", ""))["boards"].([]any); len(list) != 2 {
		t.Errorf("boards: %v", list)
	}

	w = ask(h, "POST", "/api/boards/plans/tasks", `{"title":"first","assignee":"build","priority":3}`)
	first, _ := decoded(t, w)["task"].(map[string]any)
	id, _ := first["id"].(string)
	if w.Code != http.StatusCreated || id == "" || first["created_by"] != "api" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	w = ask(h, "POST", "/api/boards/plans/tasks", `{"title":"second","parents":["`+id+`"]}`, header("Idempotency-Key", "once"))
	second, _ := decoded(t, w)["task"].(map[string]any)
	again := ask(h, "POST", "/api/boards/plans/tasks", `{"title":"second","parents":["`+id+`"]}`, header("Idempotency-Key", "once"))
	if other := ask(h, "POST", "/api/boards/plans/tasks", `{"title":"third"}`, header("Idempotency-Key", "once")); other.Code != http.StatusConflict {
		t.Errorf("another request under the key: %d %s", other.Code, other.Body)
	}
	if same, _ := decoded(t, again)["task"].(map[string]any); second["status"] != "todo" || same["id"] != second["id"] {
		t.Errorf("second %v, asked again %v", second, same)
	}
	if len(dispatch.woken) != 4 || dispatch.woken[1] != "plans" {
		t.Errorf("woken: %v", dispatch.woken)
	}

	tasks, _ := decoded(t, ask(h, "GET", "/api/boards/plans/tasks?status=ready&limit=5", ""))["tasks"].([]any)
	if len(tasks) != 1 {
		t.Errorf("ready: %v", tasks)
	}
	detail := decoded(t, ask(h, "GET", "/api/boards/plans/tasks/"+id, ""))
	if children, _ := detail["children"].([]any); len(children) != 1 || children[0] != second["id"] || detail["events"] == nil {
		t.Errorf("detail: %v", detail)
	}
	shown := decoded(t, ask(h, "GET", "/api/boards/plans", ""))
	stats, _ := shown["stats"].(map[string]any)
	if byStatus, _ := stats["by_status"].(map[string]any); byStatus["ready"] != 1.0 || byStatus["todo"] != 1.0 {
		t.Errorf("board: %v", shown)
	}
	if why := decoded(t, ask(h, "GET", "/api/boards/plans/tasks/"+id+"/why", "")); why["task"] != id {
		t.Errorf("why: %v", why)
	}
}

func TestWhatABoardRefuses(t *testing.T) {
	h, _ := plain(func(o *Options) { o.Boards, o.Dispatch = newShelf(t), &bell{} })
	if w := ask(h, "POST", "/api/boards", `{"slug":"plans"}`); w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	cases := []struct {
		method, path, body string
		status             int
		param              any
	}{
		{"POST", "/api/boards", `{}`, 400, "slug"},
		{"POST", "/api/boards", `{"slug":7}`, 400, "slug"},
		{"POST", "/api/boards", `{"slug":"more","colour":"red"}`, 400, "colour"},
		{"GET", "/api/boards/more", "", 404, nil},
		{"POST", "/api/boards", `{"slug":"../x"}`, 400, nil},
		{"POST", "/api/boards", `{"slug":"plans"}`, 409, nil},
		{"GET", "/api/boards/none", "", 404, nil},
		{"GET", "/api/boards/%2e%2e", "", 400, nil},
		{"GET", "/api/boards/none/tasks", "", 404, nil},
		{"GET", "/api/boards/none/tasks/t_1/why", "", 404, nil},
		{"GET", "/api/boards/plans/tasks/t_none", "", 404, nil},
		{"GET", "/api/boards/plans/tasks/t_none/why", "", 404, nil},
		{"GET", "/api/boards/plans/tasks?limit=x", "", 400, "limit"},
		{"GET", "/api/boards/plans/tasks?limit=-1", "", 400, "limit"},
		{"GET", "/api/boards/plans/tasks?include_archived=maybe", "", 400, "include_archived"},
		{"GET", "/api/boards/plans/tasks?sort=color", "", 400, "sort"},
		{"GET", "/api/boards/plans/tasks?status=foo", "", 400, "status"},
		{"POST", "/api/boards/plans/tasks", `{"title":"x","status":"running"}`, 400, "status"},
		{"POST", "/api/boards/plans/tasks", `{"title":"x","priorty":1}`, 400, "priorty"},
		{"POST", "/api/boards/plans/tasks", `{}`, 400, "title"},
		{"POST", "/api/boards/plans/tasks", `{"title":["x"]}`, 400, "title"},
		{"POST", "/api/boards/plans/tasks", `{"title":"x","parents":"t_1"}`, 400, "parents"},
		{"POST", "/api/boards/plans/tasks", `{"title":"x","priority":"high"}`, 400, "priority"},
		{"POST", "/api/boards/plans/tasks", `{"title":"x","max_retries":1.5}`, 400, "max_retries"},
		{"POST", "/api/boards/none/tasks", `{"title":"x"}`, 404, nil},
	}
	for _, c := range cases {
		w := ask(h, c.method, c.path, c.body)
		inner, _ := decoded(t, w)["error"].(map[string]any)
		if w.Code != c.status || inner["message"] == "" || inner["param"] != c.param {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, w.Code, w.Body)
		}
	}
	if w := ask(h, "GET", "/api/boards/plans/tasks?status=foo", ""); !strings.Contains(w.Body.String(), "triage, todo, scheduled") {
		t.Errorf("the known statuses are not named: %s", w.Body)
	}
	if w := ask(h, "POST", "/api/boards/plans/tasks", `{"title":"x","status":"running"}`); !strings.Contains(w.Body.String(), "initial_status") {
		t.Errorf("the known fields are not named: %s", w.Body)
	}
	if list, _ := decoded(t, ask(h, "GET", "/api/boards/plans/tasks", ""))["tasks"].([]any); len(list) != 0 {
		t.Errorf("refused cards were made: %v", list)
	}
	if _, err := os.Stat("none"); err == nil {
		t.Error("a refused name left a directory")
	}
}

func TestABoardThatCannotBeReadIsShownWithItsReason(t *testing.T) {
	boards := newShelf(t)
	if err := os.WriteFile(boards.DBPath(kanban.DefaultSlug), []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	h, _ := plain(func(o *Options) { o.Boards = boards })
	w := ask(h, "GET", "/api/boards/default", "")
	if trouble, _ := decoded(t, w)["trouble"].(string); w.Code != http.StatusOK || trouble == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	refused(t, ask(h, "GET", "/api/boards/default/tasks", ""), http.StatusServiceUnavailable, "damaged")
}

// A board's own limit of workers is part of what is said about it; a list of boards says which one is paused.
func TestABoardsLimitAndPauseAreTold(t *testing.T) {
	boards := newShelf(t)
	if _, err := boards.Create(t.Context(), kanban.DefaultSlug, kanban.Meta{}); err != nil {
		t.Fatal(err)
	}
	h, _ := plain(func(o *Options) { o.Boards, o.Dispatch = boards, &bell{} })
	for body, want := range map[string]int{`{"max_in_progress":2}`: 200, `{"max_in_progress":-1}`: 400, `{"max_in_progress":"x"}`: 400, `{"max_in_progress":1.5}`: 400} {
		w := ask(h, "PATCH", "/api/boards/default", body)
		if w.Code != want || want == 400 && !strings.Contains(w.Body.String(), `"param":"max_in_progress"`) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if info, err := boards.Lookup(kanban.DefaultSlug); err != nil || info.MaxInProgress != 2 {
		t.Errorf("%+v, %v", info, err)
	}
	if w := ask(h, "POST", "/api/boards/default/pause", `{"reason":"holiday"}`); w.Code != 200 {
		t.Fatal(w.Body)
	}
	if w := ask(h, "GET", "/api/boards", ""); !strings.Contains(w.Body.String(), `"reason":"holiday"`) {
		t.Error(w.Body)
	}
}
