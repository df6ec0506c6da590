package api

import "github.com/go-chi/chi/v5"

// doorRoutes are those by which a page comes in and goes out.
func (s *server) doorRoutes(chi.Router) {}
