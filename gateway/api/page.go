package api

import (
	"net/http"
	"strings"

	"gatewayd/internal/mutation"
)

// page answers what is no route of the API: by the page, where there is one, and behind the same guard. Only its login and its static
// files are open, which say nothing of this daemon.
func (s *server) page() http.HandlerFunc {
	nothing := func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, errNoRoute(r)) }
	if s.Page == nil {
		return nothing
	}
	guarded := s.authenticate(s.Page)
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case forPrograms(r):
			nothing(w, r)
		case r.URL.Path == "/login", strings.HasPrefix(r.URL.Path, "/static/"):
			s.Page.ServeHTTP(w, r)
		case mutation.On("fragment-without-authentication") && r.Header.Get("Gatewayd-Fragment") != "":
			s.Page.ServeHTTP(w, r)
		default:
			guarded.ServeHTTP(w, r)
		}
	}
}

// forPrograms are requests that expect the API's envelope when there is nothing.
func forPrograms(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return true
	}
	for _, prefix := range []string{"/api", "/v1", "/health", "/metrics", "/mcp"} {
		if r.URL.Path == prefix || strings.HasPrefix(r.URL.Path, prefix+"/") {
			return true
		}
	}
	return false
}
