package api

import (
	"net/http"
	"net/url"
	"strings"

	"gatewayd/gateway/keys"
	"gatewayd/internal/mutation"
)

// page answers what is no route of the API: by the page, where there is one, and behind the same guard. Only its login and its static
// files are open, which say nothing of this daemon.
func (s *server) page() http.HandlerFunc {
	nothing := func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, errNoRoute(r)) }
	if s.Page == nil {
		return nothing
	}
	guarded := s.need(keys.Read)(s.Page)
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case forPrograms(r):
			nothing(w, r)
		case r.URL.Path == "/login", strings.HasPrefix(r.URL.Path, "/static/"):
			s.Page.ServeHTTP(w, r)
		case mutation.On("fragment-without-authentication") && r.Header.Get("Gatewayd-Fragment") != "":
			s.Page.ServeHTTP(w, r)
		default:
			s.forPeople(guarded, w, r)
		}
	}
}

// forPeople shows a page to who is logged in and sends everybody else to the login. A part that a page fetches is refused instead: a login form
// in the middle of a board helps nobody.
func (s *server) forPeople(page http.Handler, w http.ResponseWriter, r *http.Request) {
	caller, err := s.identify(r)
	switch {
	case err == nil:
		page.ServeHTTP(w, r.WithContext(keys.With(r.Context(), caller)))
	case asRefusal(err).status != http.StatusUnauthorized || r.Header.Get("Gatewayd-Fragment") != "" || r.Header.Get("Authorization") != "":
		s.fail(w, r, err)
	default:
		back := url.Values{"next": {LocalPath(r.URL.RequestURI())}}
		redirect(w, "/login?"+back.Encode())
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
