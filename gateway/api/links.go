package api

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"gatewayd/kanban"
)

// linkRoutes say which card waits for which, and what people say about one.
func (s *server) linkRoutes(r chi.Router) {
	to := s.behind(r)
	to.boards.Post("/api/boards/{board}/links", s.handle(s.link))
	to.boards.Delete("/api/boards/{board}/links", s.handle(s.unlink))
	to.boards.Post("/api/boards/{board}/tasks/{task}/comments", s.handle(s.comment))
}

// link answers POST …/links: the child waits for the parent. run_id is the child's, where its worker asks.
func (s *server) link(r *http.Request) (answer, error) {
	o, err := s.jsonBody(r)
	if err != nil {
		return answer{}, err
	}
	var parent, child *string
	var run kanban.RunID
	if err := o.read(wanted("parent_id", &parent), wanted("child_id", &child), into("run_id", &run)); err != nil {
		return answer{}, err
	}
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
		return s.linked(r, slug, board, *child, board.LinkAs(r.Context(), *parent, *child, run))
	})
}

// unlink answers DELETE …/links?parent_id=…&child_id=….
func (s *server) unlink(r *http.Request) (answer, error) {
	q := newQuery(r)
	parent, child := q.text("parent_id"), q.text("child_id")
	switch {
	case parent == "":
		return answer{}, errField("parent_id", "is missing")
	case child == "":
		return answer{}, errField("child_id", "is missing")
	}
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
		return s.linked(r, slug, board, child, board.Unlink(r.Context(), parent, child))
	})
}

// linked answers the child as it is after its links changed.
func (s *server) linked(r *http.Request, slug kanban.Slug, board *kanban.Board, child string, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	s.wake(slug)
	card, err := board.Task(r.Context(), child)
	if err != nil {
		return answer{}, err
	}
	return ok(map[string]any{"task": card})
}

// comment answers POST …/tasks/{task}/comments with 201.
func (s *server) comment(r *http.Request) (answer, error) {
	o, err := s.jsonBody(r)
	if err != nil {
		return answer{}, err
	}
	var body, author string
	if err := o.read(into("body", &body), named("author", &author)); err != nil {
		return answer{}, err
	}
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
		made, err := board.Comment(r.Context(), chi.URLParam(r, "task"), author, body)
		if err != nil {
			return answer{}, err
		}
		s.wake(slug)
		return answer{http.StatusCreated, map[string]any{"comment": made}}, nil
	})
}
