package api

import (
	"net/http"
	"strings"
	"testing"

	"gatewayd/gateway/keys"
)

// eachRoute gives every route that is described as behind a key, as a request can ask for it, with the scope that it is said to need.
func eachRoute(t *testing.T, h http.Handler, visit func(method, pattern, path string, scope keys.Scope)) {
	t.Helper()
	routes := routesOf(t, h)
	for _, method := range []string{"GET", "POST", "DELETE"} {
		routes[method+" /mcp"] = true
	}
	for route := range routes {
		method, pattern, _ := strings.Cut(route, " ")
		op, described := describing().Paths[pattern][strings.ToLower(method)]
		if described && op.Scope == "" || pattern == "/login" {
			continue
		}
		path := pattern
		for strings.Contains(path, "{") {
			from, to := strings.Index(path, "{"), strings.Index(path, "}")
			path = path[:from] + "1" + path[to+1:]
		}
		visit(method, pattern, path, keys.Scope(op.Scope))
	}
	if len(routes) < 80 {
		t.Errorf("only %d routes were walked", len(routes))
	}
}

// knock sends a request of a key with these scopes, and reports whether it is refused for want of one.
func knock(h http.Handler, method, path string, scopes ...keys.Scope) bool {
	r := newRequest(method, path, "")
	caller := keys.Caller{Key: keys.Key{ID: "k", Name: "somebody", Scopes: scopes}, Door: keys.DoorSocket}
	w := serve(h, r.WithContext(keys.With(r.Context(), caller)))
	return w.Code == http.StatusForbidden && strings.Contains(w.Body.String(), "insufficient_scope")
}

func TestEveryRouteBehindTheKeyAsksForAScope(t *testing.T) {
	h, _ := plain(nil)
	eachRoute(t, h, func(method, pattern, path string, _ keys.Scope) {
		if !knock(h, method, path) {
			t.Errorf("%s %s asks for no scope", method, pattern)
		}
	})
}

func TestEveryRouteNeedsTheScopeThatItIsSaidToNeed(t *testing.T) {
	h, _ := plain(nil)
	eachRoute(t, h, func(method, pattern, path string, said keys.Scope) {
		for _, scope := range keys.Scopes {
			if said != "" && knock(h, method, path, scope) == scope.Includes(said) {
				t.Errorf("%s %s is said to need %s, and with %s it is otherwise", method, pattern, said, scope)
			}
		}
		if reads := method == http.MethodGet && !strings.HasPrefix(pattern, "/api/keys") && pattern != "/mcp"; reads != !knock(h, method, path, keys.Read) {
			t.Errorf("%s %s: a key that reads is let in: %v", method, pattern, !reads)
		}
	})
}
