package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"gatewayd/gateway/keys"
	"gatewayd/kanban"
)

// runTokenPrefix begins every token of a run; the API key is never taken for one.
const runTokenPrefix = "run."

type runKey struct{}

// RunOf is the run whose token a request to /mcp carried; nil means that it carried the API key.
func RunOf(ctx context.Context) *kanban.Fence {
	run, _ := ctx.Value(runKey{}).(*kanban.Fence)
	return run
}

func (s *server) mcpRoutes(r chi.Router) {
	if s.MCP == nil {
		r.With(s.authenticate, s.need(keys.Boards)).Handle("/mcp", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, errOff("MCP")) }))
		return
	}
	r.With(s.authenticateRun, s.patientAnswer).Handle("/mcp", s.MCP)
}

// authenticateRun lets a request with the API key through, and one with the token of a run. A token is good for this
// route alone and for that run alone.
func (s *server) authenticateRun(next http.Handler) http.Handler {
	byKey := s.authenticate(s.need(keys.Boards)(next))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		token = strings.TrimSpace(token)
		if s.RunToken == nil || !strings.EqualFold(scheme, "Bearer") || !strings.HasPrefix(token, runTokenPrefix) {
			byKey.ServeHTTP(w, r)
			return
		}
		run, err := s.RunToken(token)
		if err != nil {
			s.fail(w, r, &refusal{status: http.StatusUnauthorized, code: "invalid_run_token", message: err.Error(), cause: err})
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), runKey{}, &run)))
	})
}
