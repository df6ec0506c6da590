package api

import "github.com/go-chi/chi/v5"

// keyRoutes are the keys of this daemon.
func (s *server) keyRoutes(chi.Router) {}
