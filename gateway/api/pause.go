package api

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"gatewayd/kanban"
)

func (s *server) pauseRoutes(r chi.Router) {
	to := s.behind(r)
	to.boards.Post("/api/boards/{board}/pause", s.handle(s.pauseAs(kanban.PauseStarts)))
	to.boards.Post("/api/boards/{board}/drain", s.handle(s.pauseAs(kanban.PauseDrain)))
	to.boards.Post("/api/boards/{board}/resume", s.handle(s.resume))
}

// pauseAs answers POST …/pause {reason, by} and …/drain {reason, by, kill}: no card of the board starts until it is resumed.
func (s *server) pauseAs(mode string) func(*http.Request) (answer, error) {
	return func(r *http.Request) (answer, error) {
		o, err := s.jsonBody(r)
		if err != nil {
			return answer{}, err
		}
		p, kill := kanban.Pause{Mode: mode, By: "api"}, false
		fields := []func(object) error{into("reason", &p.Reason), into("by", &p.By)}
		if mode == kanban.PauseDrain {
			fields = append(fields, into("kill", &kill))
		}
		if err := o.read(fields...); err != nil {
			return answer{}, err
		}
		return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
			defer s.wake(slug)
			if err := board.Pause(r.Context(), p); err != nil {
				return answer{}, err
			}
			asked := 0
			if kill {
				if asked, err = board.StopAll(r.Context(), p.Reason, p.By); err != nil {
					return answer{}, err
				}
			}
			running, err := board.Running(r.Context())
			if err != nil {
				return answer{}, err
			}
			paused, err := board.Paused(r.Context())
			if err != nil {
				return answer{}, err
			}
			return ok(map[string]any{"board": slug, "pause": paused, "running": len(running), "asked_to_end": asked})
		})
	}
}

// resume answers POST …/resume {by}.
func (s *server) resume(r *http.Request) (answer, error) {
	o, err := s.jsonBody(r)
	if err != nil {
		return answer{}, err
	}
	by := "api"
	if err := o.read(into("by", &by)); err != nil {
		return answer{}, err
	}
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
		if err := board.Resume(r.Context(), by); err != nil {
			return answer{}, err
		}
		s.wake(slug)
		return ok(map[string]any{"board": slug, "pause": nil})
	})
}
