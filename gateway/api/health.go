package api

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"gatewayd/gateway"
	"gatewayd/sessiondb"
)

// health answers without key, lock or file, as often as a supervisor likes. A daemon that is stopping says so with 503, so that
// nobody sends it more work.
func (s *server) health(w http.ResponseWriter, _ *http.Request) {
	if s.Chat != nil && s.Chat.Status().Draining {
		writeJSON(w, http.StatusServiceUnavailable, map[string]any{"status": "draining", "service": modelName})
		return
	}
	if state := s.storeState(); state != sessiondb.StateOK {
		// 200: a restart mends nothing that the daemon does not mend by itself, and what can be read is still served.
		writeJSON(w, http.StatusOK, map[string]any{"status": "degraded", "service": modelName, "store": state})
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"status": "ok", "service": modelName})
}

func (s *server) storeState() sessiondb.State {
	if s.Store == nil {
		return sessiondb.StateOK
	}
	return s.Store.State()
}

// healthDetailed says how each part is. It is 200 also when something is wrong; the status field tells. The pid lets whoever
// started a daemon know that it is theirs that answers.
func (s *server) healthDetailed(r *http.Request) (answer, error) {
	checks := []Check{}
	if s.Checks != nil {
		checks = append(checks, s.Checks(r.Context())...)
	}
	var store *sessiondb.Health
	if s.Store != nil {
		health := s.Store.Health()
		store = &health
	}
	conversations := s.Chat.Status()
	status := "ok"
	if s.storeState() != sessiondb.StateOK {
		status = "degraded"
	}
	for _, check := range checks {
		if check.Status == "degraded" || check.Status == "failed" {
			status = "degraded"
		}
	}
	if conversations.Draining {
		status = "draining"
	}
	last := gateway.Receipt{}
	if s.Receipt != nil {
		last = s.Receipt()
	}
	return ok(map[string]any{
		"last_run": map[string]any{"how": last.Run.How, "sentence": last.Sentence, "turns": len(last.Turns), "messages_waiting": last.Waiting},
		"status":   status, "service": modelName, "pid": s.PID, "version": s.Version, "started_at": s.Started.UTC(),
		"uptime_seconds": int64(time.Since(s.Started).Seconds()), "checks": checks,
		"store": store, "conversations": conversations.Conversations, "turns_running": len(conversations.Running), "turns_waiting": conversations.Queued,
	})
}

// lastRun answers GET /api/receipt: how the daemon before this one ended, what was in flight, what was decided for each of it.
func (s *server) lastRun(*http.Request) (answer, error) {
	if s.Receipt == nil {
		return ok(gateway.Receipt{Turns: []gateway.Recovered{}})
	}
	return ok(s.Receipt())
}

// status answers GET /api/status.
func (s *server) status(r *http.Request) (answer, error) {
	if s.Status == nil {
		return ok(map[string]any{"pid": s.PID, "version": s.Version, "started": s.Started.UTC(), "gateway": s.Chat.Status()})
	}
	return ok(s.Status(r.Context()))
}

// models lists the one model that a client can talk to: the agent.
func (s *server) models(*http.Request) (answer, error) {
	return ok(map[string]any{"object": "list", "data": []any{s.modelBody()}})
}

func (s *server) model(r *http.Request) (answer, error) {
	if name := chi.URLParam(r, "model"); name != modelName {
		return answer{}, &refusal{status: http.StatusNotFound, code: "model_not_found", param: "model", message: fmt.Sprintf("there is no model %.100q here; it is %q", name, modelName)}
	}
	return ok(s.modelBody())
}

func (s *server) modelBody() map[string]any {
	body := map[string]any{"id": modelName, "object": "model", "created": s.Started.Unix(), "owned_by": modelName}
	if s.Model != nil {
		d := s.Model()
		body["backend"], body["context_length"], body["offline"] = d.Name, d.ContextLength, d.Offline
	}
	return body
}
