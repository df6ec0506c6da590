package api

import (
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"gatewayd/kanban"
)

// runRoutes are a card's attempts by their own numbers.
func (s *server) runRoutes(r chi.Router) {
	to := s.behind(r)
	to.read.Get("/api/boards/{board}/runs/{run}", s.handle(s.showRun))
	to.boards.Post("/api/boards/{board}/runs/{run}/terminate", s.handle(s.terminate))
}

func (s *server) runID(r *http.Request) (kanban.RunID, error) {
	text := chi.URLParam(r, "run")
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, errField("run", "must be the number of a run, not %.50q", text)
	}
	return kanban.RunID(id), nil
}

// showRun answers GET …/runs/{run}.
func (s *server) showRun(r *http.Request) (answer, error) {
	id, err := s.runID(r)
	if err != nil {
		return answer{}, err
	}
	return s.onBoard(r, func(_ kanban.Slug, board *kanban.Board) (answer, error) {
		run, err := board.Run(r.Context(), id)
		if err != nil {
			return answer{}, err
		}
		return ok(map[string]any{"run": run, "task_id": run.TaskID})
	})
}

// terminate answers POST …/runs/{run}/terminate: the worker is ended and its card released.
func (s *server) terminate(r *http.Request) (answer, error) {
	id, err := s.runID(r)
	if err != nil {
		return answer{}, err
	}
	o, err := s.optionalBody(r)
	if err != nil {
		return answer{}, err
	}
	var reason, actor string
	if err := o.read(into("reason", &reason), actorInto(&actor)); err != nil {
		return answer{}, err
	}
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
		released, err := board.Terminate(r.Context(), id, reason, actor)
		if err != nil {
			return answer{}, err
		}
		s.wake(slug)
		run, err := board.Run(r.Context(), id)
		if err != nil {
			return answer{}, err
		}
		return ok(map[string]any{"ok": true, "run_id": id, "task_id": run.TaskID, "released": released})
	})
}
