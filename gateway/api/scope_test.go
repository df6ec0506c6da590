package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"gatewayd/gateway/keys"
)

// open are the routes that nobody needs a key for.
var open = []string{"/health", "/v1/health", "/login", "/logout", "/static/*"}

func isOpen(pattern string) bool {
	for _, path := range open {
		if path == pattern {
			return true
		}
	}
	return false
}

// eachRoute gives every route of the API as a request can ask for it.
func eachRoute(t *testing.T, h http.Handler, visit func(method, pattern, path string)) {
	t.Helper()
	count := 0
	err := chi.Walk(h.(chi.Routes), func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if isOpen(pattern) || method == http.MethodConnect {
			return nil
		}
		count++
		path := pattern
		for {
			before, rest, found := strings.Cut(path, "{")
			if !found {
				break
			}
			_, after, _ := strings.Cut(rest, "}")
			path = before + "1" + after
		}
		visit(method, pattern, strings.TrimSuffix(path, "*"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 80 {
		t.Errorf("only %d routes were walked", count)
	}
}

func TestEveryRouteBehindTheKeyAsksForAScope(t *testing.T) {
	store := keys.Fixed("")
	h, _ := plain(func(o *Options) { o.Key, o.Keys = "", store })
	eachRoute(t, h, func(method, pattern, path string) {
		r := newRequest(method, path, "")
		w := serve(h, r.WithContext(keys.With(r.Context(), keys.Caller{Key: keys.Key{ID: "k", Name: "nobody"}, Door: keys.DoorKey})))
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "insufficient_scope") {
			t.Errorf("%s %s asks for no scope: %d %.200s", method, pattern, w.Code, w.Body)
		}
	})
}

func TestAKeyThatReadsChangesNothing(t *testing.T) {
	h, _ := plain(nil)
	eachRoute(t, h, func(method, pattern, path string) {
		r := newRequest(method, path, "")
		w := serve(h, r.WithContext(keys.With(r.Context(), keys.Caller{Key: keys.Key{ID: "k", Name: "reader", Scopes: []keys.Scope{keys.Read}}, Door: keys.DoorKey})))
		refusedIt := w.Code == http.StatusForbidden && strings.Contains(w.Body.String(), "insufficient_scope")
		reads := (method == http.MethodGet || method == http.MethodHead) && !strings.HasPrefix(pattern, "/api/keys") && pattern != "/mcp"
		if refusedIt == reads && method != http.MethodHead {
			t.Errorf("%s %s with scope read: %d %.200s", method, pattern, w.Code, w.Body)
		}
	})
}
