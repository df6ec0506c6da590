package api

import (
	"net/http"
	"strings"
	"testing"
)

func withPage(o *Options) {
	o.Page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("page " + r.URL.Path)) })
}

func TestNoPageAndNoFragmentIsShownWithoutTheKey(t *testing.T) {
	h, _ := plain(withPage)
	for _, path := range []string{"/", "/boards/default", "/boards/default/tasks/t_1", "/chat", "/no/such/page"} {
		for _, part := range []string{"", "columns", "card"} {
			w := ask(h, "GET", path, "", header("Authorization", "Bearer wrong"), header("Gatewayd-Fragment", part))
			if w.Code == http.StatusOK || strings.Contains(w.Body.String(), "page ") {
				t.Errorf("%s, part %q: %d %s", path, part, w.Code, w.Body)
			}
			if w := ask(h, "GET", path, "", header("Gatewayd-Fragment", part)); w.Body.String() != "page "+path {
				t.Errorf("%s with the key: %d %s", path, w.Code, w.Body)
			}
		}
	}
	for _, path := range []string{"/login", "/static/page.css"} {
		if w := ask(h, "GET", path, "", header("Authorization", "")); w.Body.String() != "page "+path {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestThePageHidesNoRouteOfTheAPI(t *testing.T) {
	h, _ := plain(withPage)
	for _, route := range []string{"GET /api/no/such", "GET /v1/nothing", "POST /", "DELETE /boards/default", "GET /api", "GET /health/x"} {
		method, path, _ := strings.Cut(route, " ")
		refused(t, ask(h, method, path, "{}"), http.StatusNotFound, "not_found")
	}
}
