package api

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
)

// routesOf are the methods and patterns of a handler. HEAD is GET without its body, and a route of all methods has those that its
// description names.
func routesOf(t *testing.T, h http.Handler) map[string]bool {
	t.Helper()
	routes := map[string]bool{}
	err := chi.Walk(h.(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if method != http.MethodHead && route != "/mcp" && route != "/*" {
			routes[method+" "+route] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return routes
}

func TestEveryRouteIsDescribedAndEveryDescribedRouteIsThere(t *testing.T) {
	h, _ := plain(nil)
	routes := routesOf(t, h)
	described := map[string]bool{}
	for path, methods := range describing().Paths {
		for method := range methods {
			if path != "/mcp" {
				described[strings.ToUpper(method)+" "+path] = true
			}
		}
	}
	for _, route := range slices.Sorted(maps.Keys(routes)) {
		if !described[route] {
			t.Errorf("%s is not described: tell of it in openapi/*.yaml", route)
		}
	}
	for _, route := range slices.Sorted(maps.Keys(described)) {
		if !routes[route] {
			t.Errorf("%s is described and not there", route)
		}
	}
}
