package api

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"
)

// Settings are those that the daemon runs with. The answers are sent as they are.
type Settings interface {
	// InForce lists every setting with where it came from; secrets are marks.
	InForce() any
	// Reload reads the configuration again and says what changed, and what counts from the next start on only.
	Reload(ctx context.Context) (any, error)
}

func (s *server) settingsRoutes(r chi.Router) {
	to := s.behind(r)
	to.read.Get("/api/config", s.handle(s.inForce))
	to.admin.Post("/api/config/reload", s.handle(s.reload))
}

// inForce answers GET /api/config.
func (s *server) inForce(*http.Request) (answer, error) {
	if s.Settings == nil {
		return answer{}, errOff("the configuration")
	}
	return ok(map[string]any{"object": "list", "settings": s.Settings.InForce()})
}

// reload answers POST /api/config/reload.
func (s *server) reload(r *http.Request) (answer, error) {
	if s.Settings == nil {
		return answer{}, errOff("the configuration")
	}
	o, err := s.optionalBody(r)
	if err == nil {
		err = o.done()
	}
	if err != nil {
		return answer{}, err
	}
	out, err := s.Settings.Reload(r.Context())
	if err != nil {
		return answer{}, err
	}
	return ok(out)
}
