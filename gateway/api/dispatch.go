package api

import (
	"net/http"

	"github.com/go-chi/chi/v5"
)

func (s *server) dispatchRoutes(r chi.Router) {
	s.behind(r).admin.Post("/api/dispatch", s.handle(s.dispatchNow))
}

// dispatchNow answers POST /api/dispatch with what one tick over all boards did, at once.
func (s *server) dispatchNow(r *http.Request) (answer, error) {
	if s.Dispatch == nil {
		return answer{}, errOff("dispatch")
	}
	report, err := s.Dispatch.Now(r.Context())
	if err != nil {
		return answer{}, err
	}
	return ok(report)
}
