package web

import (
	"net/http"

	"github.com/go-chi/chi/v5"
)

// talkRoutes are the conversations, the search and the daemon's health.
func (s *site) talkRoutes(r chi.Router) {
	r.Get("/chat", s.show(s.soon("chat")))
	r.Get("/sessions", s.show(s.soon("sessions")))
	r.Get("/search", s.show(s.soon("search")))
	r.Get("/status", s.show(s.soon("status")))
}

// soon stands where a page is not built yet.
func (s *site) soon(what string) func(*http.Request) (page, error) {
	return func(r *http.Request) (page, error) {
		return page{Mark: what, Query: r.URL.Query().Get("q")}, off("The page " + what)
	}
}
