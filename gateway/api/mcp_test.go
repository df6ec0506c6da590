package api

import (
	"fmt"
	"net/http"
	"testing"

	"gatewayd/internal/problem"
	"gatewayd/kanban"
)

// The token of a run opens /mcp and no other route, and says there whose it is; pages of other sites are kept out of this
// route as of all others.
func TestARunsTokenIsGoodForMCPAlone(t *testing.T) {
	h, _ := plain(func(o *Options) {
		o.MCP = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			who := "the key"
			if run := RunOf(r.Context()); run != nil {
				who = fmt.Sprintf("run %d of %s", run.Run, run.Task)
			}
			writeJSON(w, http.StatusOK, map[string]string{"who": who})
		})
		o.RunToken = func(token string) (kanban.Fence, error) {
			if token != "run.good.token" {
				return kanban.Fence{}, &problem.Error{Kind: problem.Denied, Thing: "the run's token", What: "is not one of this daemon's"}
			}
			return kanban.Fence{Task: "t_1", Run: 7}, nil
		}
	})
	as := func(token string) func(*http.Request) { return header("Authorization", "Bearer "+token) }
	for token, want := range map[string]string{"run.good.token": "run 7 of t_1", testKey: "the key"} {
		if got := decoded(t, ask(h, http.MethodPost, "/mcp", "{}", as(token))); got["who"] != want {
			t.Errorf("%s: %v", token, got)
		}
	}
	refused(t, ask(h, http.MethodPost, "/mcp", "{}", as("run.forged.token")), http.StatusUnauthorized, "invalid_run_token")
	refused(t, ask(h, http.MethodPost, "/mcp", "{}", as("wrong")), http.StatusUnauthorized, "invalid_api_key")
	refused(t, ask(h, http.MethodPost, "/mcp", "{}", func(r *http.Request) { r.Header.Del("Authorization") }), http.StatusUnauthorized, "invalid_api_key")
	refused(t, ask(h, http.MethodPost, "/mcp", "{}", as("run.good.token"), func(r *http.Request) { r.Host = "evil.example" }), http.StatusForbidden, "host_not_allowed")
	refused(t, ask(h, http.MethodPost, "/mcp", "{}", as("run.good.token"), header("Origin", "https://evil.example")), http.StatusForbidden, "origin_not_allowed")
	for _, path := range []string{"/api/boards", "/v1/models", "/metrics"} {
		refused(t, ask(h, http.MethodGet, path, "", as("run.good.token")), http.StatusUnauthorized, "invalid_api_key")
	}
	off, _ := plain(nil)
	refused(t, ask(off, http.MethodPost, "/mcp", "{}"), http.StatusServiceUnavailable, "off")
	refused(t, ask(off, http.MethodPost, "/mcp", "{}", as("run.good.token")), http.StatusUnauthorized, "invalid_api_key")
}
