package api

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"gatewayd/gateway/keys"
	"gatewayd/internal/mutation"
)

// behind gives the doors that a route can stand behind. Routes are added to one of them and never to the router itself, so that none is
// without a scope.
func (s *server) behind(r chi.Router) doors {
	return doors{
		read: r.With(s.need(keys.Read), s.knownQuery), chat: r.With(s.need(keys.Chat), s.knownQuery),
		boards: r.With(s.need(keys.Boards), s.knownQuery), admin: r.With(s.need(keys.Admin), s.knownQuery),
	}
}

type doors struct{ read, chat, boards, admin chi.Router }

// need lets a caller through whose key has the scope.
func (s *server) need(scope keys.Scope) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := needs(r, scope); err != nil && !mutation.On("scope-is-not-asked") {
				s.fail(w, r, err)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// needs says why the caller of a request may not do what wants a scope; nil when it may.
func needs(r *http.Request, scope keys.Scope) error {
	caller, known := keys.Who(r.Context())
	if known && caller.Key.May(scope) {
		return nil
	}
	return &refusal{
		status: http.StatusForbidden, code: "insufficient_scope",
		message: fmt.Sprintf("this needs the scope %q, and the key %q has only %s", scope, caller.Key.Name, keys.Names(caller.Key.Scopes)),
	}
}
