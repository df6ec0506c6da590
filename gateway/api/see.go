package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"gatewayd/kanban"
)

// maxLogTail is how much of a log one answer carries, and what it carries when nothing is asked.
const maxLogTail = 2_000_000 // bytes

// seeRoutes are what a person sees of a board beside its cards.
func (s *server) seeRoutes(r chi.Router) {
	to := s.behind(r)
	to.read.Get("/api/boards/{board}/diagnostics", s.handle(s.diagnostics))
	to.read.Get("/api/boards/{board}/stats", s.handle(s.stats))
	to.read.Get("/api/boards/{board}/assignees", s.handle(s.assignees))
	to.read.Get("/api/boards/{board}/workers/active", s.handle(s.activeWorkers))
	to.read.Get("/api/boards/{board}/runs/{run}/inspect", s.handle(s.inspectRun))
	to.read.Get("/api/boards/{board}/tasks/{task}/log", s.handle(s.taskLog))
}

// taskLog answers GET …/tasks/{task}/log?tail=. A card without a log answers exists: false.
func (s *server) taskLog(r *http.Request) (answer, error) {
	q := newQuery(r)
	tail := q.number("tail", 1, maxLogTail)
	if q.err != nil {
		return answer{}, q.err
	}
	if tail == 0 {
		tail = maxLogTail
	}
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
		card, err := board.Task(r.Context(), chi.URLParam(r, "task"))
		if err != nil {
			return answer{}, err
		}
		log, err := s.Boards.ReadLog(slug, card.ID, tail)
		if err != nil {
			return answer{}, err
		}
		return ok(log)
	})
}

func (s *server) stats(r *http.Request) (answer, error) {
	return s.onBoard(r, func(_ kanban.Slug, board *kanban.Board) (answer, error) {
		stats, err := board.Stats(r.Context())
		if err != nil {
			return answer{}, err
		}
		return ok(stats)
	})
}

func (s *server) assignees(r *http.Request) (answer, error) {
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
		stats, err := board.Stats(r.Context())
		if err != nil {
			return answer{}, err
		}
		return ok(map[string]any{"object": "list", "board": slug, "assignees": stats.Assignees(s.Lanes)})
	})
}

func (s *server) activeWorkers(r *http.Request) (answer, error) {
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
		running, err := board.Running(r.Context())
		if err != nil {
			return answer{}, err
		}
		workers := make([]kanban.ActiveWorker, 0, len(running))
		for _, row := range running {
			workers = append(workers, row.Active())
		}
		return ok(map[string]any{"board": slug, "workers": workers, "count": len(workers), "checked_at": time.Now().Unix()})
	})
}

// inspectRun answers what is seen of a run's process on this machine.
func (s *server) inspectRun(r *http.Request) (answer, error) {
	text := chi.URLParam(r, "run")
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return answer{}, errField("run", "must be a whole number, not %.50q", text)
	}
	return s.onBoard(r, func(_ kanban.Slug, board *kanban.Board) (answer, error) {
		seen, err := board.InspectRun(r.Context(), kanban.RunID(id))
		if err != nil {
			return answer{}, err
		}
		return ok(seen)
	})
}
