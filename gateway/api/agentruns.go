package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"gatewayd/gateway"
	"gatewayd/gateway/runs"
	"gatewayd/sessiondb"
)

// Runs are turns that nobody waits for: runs.Desk.
type Runs interface {
	Start(ctx context.Context, ask runs.Ask) (sessiondb.Run, error)
	Get(ctx context.Context, owner, id string) (sessiondb.Run, error)
	List(ctx context.Context, f sessiondb.RunFilter) ([]sessiondb.Run, error)
	Next(ctx context.Context, id string, after int64) (events []sessiondb.RunEvent, over bool, err error)
	Stop(ctx context.Context, owner, id string) (sessiondb.Run, error)
	Steer(ctx context.Context, owner, id, text string) (gateway.Accepted, error)
	Approve(ctx context.Context, owner, id, approval, decision, by string) (gateway.Approval, error)
}

func (s *server) agentRunRoutes(r chi.Router) {
	to := s.behind(r)
	to.read.Get("/v1/runs", s.handle(s.onRuns(s.listAgentRuns)))
	to.chat.Post("/v1/runs", s.handle(s.onRuns(s.createAgentRun)))
	to.read.Get("/v1/runs/{run_id}", s.handle(s.onRuns(s.showAgentRun)))
	to.read.With(s.bounded).Get("/v1/runs/{run_id}/events", s.watchAgentRun)
	to.chat.Post("/v1/runs/{run_id}/stop", s.handle(s.onRuns(s.stopAgentRun)))
	to.chat.Post("/v1/runs/{run_id}/steer", s.handle(s.onRuns(s.steerAgentRun)))
	to.admin.Post("/v1/runs/{run_id}/approval", s.handle(s.onRuns(s.approveAgentRun)))
}

func (s *server) onRuns(f func(*http.Request) (answer, error)) func(*http.Request) (answer, error) {
	return func(r *http.Request) (answer, error) {
		if s.Runs == nil || s.Responses == nil {
			return answer{}, errOff("running in the background")
		}
		return f(r)
	}
}

// runAsk is the body of POST /v1/runs.
type runAsk struct {
	responseAsk
	Session string
}

func (s *server) readRunAsk(r *http.Request) (ask runAsk, err error) {
	o, err := s.jsonBody(r)
	if err != nil {
		return ask, err
	}
	ask.Store, ask.Background, ask.Truncation, ask.Metadata = true, true, "disabled", map[string]string{}
	err = o.read(later("input"), later("conversation_history"), into("session_id", &ask.Session), into("instructions", &ask.Instructions),
		into("previous_response_id", &ask.Previous), into("model", &ask.Model), func(o object) error { return takeMetadata(o, &ask.Metadata) },
		func(o object) error { return takeWishes(o, &ask.Wishes, "max_tokens") })
	if err == nil {
		err = ask.takeHistory(o)
	}
	if err == nil {
		err = ask.takeInput(o, "input")
	}
	if err != nil {
		return ask, err
	}
	ask.System = strings.TrimSpace(strings.TrimSpace(ask.Instructions) + "\n\n" + ask.System)
	switch {
	case ask.Session != "" && ask.Previous != "":
		return ask, errField("session_id", "and previous_response_id exclude each other; name one of them")
	case ask.Session != "" && !usableSession(ask.Session):
		return ask, errField("session_id", "must be 1 to %d letters, digits and . _ : @ -", maxSessionID)
	case ask.Previous != "":
		return ask, ask.onward("input", "previous_response_id")
	}
	return ask, nil
}

// takeHistory reads conversation_history: what stands before the input.
func (p *prompt) takeHistory(o object) error {
	var list []json.RawMessage
	if err := take(o, "conversation_history", &list); err != nil {
		return err
	}
	for i, raw := range list {
		if err := p.takeItem(o.name("conversation_history")+"["+strconv.Itoa(i)+"]", raw); err != nil {
			return err
		}
	}
	p.Items = nil
	return nil
}

// createAgentRun answers POST /v1/runs: 202, the message is stored and its turn comes by itself.
func (s *server) createAgentRun(r *http.Request) (answer, error) {
	ask, err := s.readRunAsk(r)
	if err == nil && begunBefore(r.Context()) {
		if run, found, err := s.recallRun(r); found || err != nil {
			return answer{http.StatusAccepted, runBody(run)}, err
		}
	}
	if err == nil {
		err = s.fetch(r.Context(), ask.Images)
	}
	if err != nil {
		return answer{}, err
	}
	var at seat
	if ask.Previous != "" {
		at, err = s.seat(r, ask.responseAsk)
	} else {
		at, err = s.runSeat(r, &ask)
	}
	if err != nil {
		return answer{}, err
	}
	response := ""
	if at.stored {
		response = at.ID
	}
	run, err := s.Runs.Start(r.Context(), runs.Ask{
		Owner: ownerOf(r), Model: ask.Model, Response: response, Say: gateway.Say{Session: at.Session, Source: gateway.SourceAPI, Text: ask.Text, Images: ask.Images, Wishes: ask.Wishes, UID: onceUID(r.Context())},
	})
	if err != nil {
		s.unmake(r.Context(), at)
		return answer{}, err
	}
	return answer{http.StatusAccepted, runBody(run)}, nil
}

// runSeat is the session that a run names, or a new one of its own. One that is named and new is made; it has no history but what is told.
func (s *server) runSeat(r *http.Request, ask *runAsk) (at seat, err error) {
	at.Session = ask.Session
	if at.Session != "" {
		if _, err := s.Sessions.Session(r.Context(), at.Session); err == nil {
			return at, ask.onward("conversation_history", "a session_id that exists")
		}
	} else {
		at.Session = "run-" + newID()
	}
	n := s.newSession(at.Session, ask.responseAsk)
	n.Unbegun = true
	if _, err = s.Responses.Found(r.Context(), n, gateway.HistoryRows(ask.History)); err != nil {
		return at, err
	}
	at.made = true
	return at, nil
}

// runBody is a run as clients read it.
func runBody(run sessiondb.Run) map[string]any {
	body := map[string]any{
		"object": "run", "id": run.ID, "run_id": run.ID, "status": run.Status, "session_id": run.Session, "turn_id": orNull(run.Turn), "model": run.Model,
		"response_id": orNull(run.Response), "created_at": run.CreatedAt, "started_at": run.StartedAt, "ended_at": run.EndedAt, "error": orNull(run.Error),
		"output": nil, "usage": nil,
	}
	if body["model"] == "" {
		body["model"] = modelName
	}
	var result map[string]any
	if json.Unmarshal(run.Result, &result) == nil {
		for _, name := range []string{"output", "usage", "finish_reason", "exit_reason", "last_row", "receipt"} {
			if value, there := result[name]; there {
				body[name] = value
			}
		}
	}
	return body
}

// listAgentRuns answers GET /v1/runs?status=&session_id=&limit=: those of the caller's key, the newest first.
func (s *server) listAgentRuns(r *http.Request) (answer, error) {
	q := newQuery(r)
	owner := ownerOf(r)
	f := sessiondb.RunFilter{Owner: &owner, Session: q.text("session_id"), Limit: int(q.number("limit", 1, maxPage))}
	switch status := q.text("status"); status {
	case "", "all":
	case "open":
		f.Open = true
	default:
		q.fail("status", "must be open or all, not %.50q", status)
	}
	if q.err != nil {
		return answer{}, q.err
	}
	list, err := s.Runs.List(r.Context(), f)
	if err != nil {
		return answer{}, err
	}
	bodies := make([]map[string]any, len(list))
	for i, run := range list {
		bodies[i] = runBody(run)
	}
	return ok(map[string]any{"object": "list", "data": bodies})
}

func (s *server) showAgentRun(r *http.Request) (answer, error) {
	run, err := s.Runs.Get(r.Context(), ownerOf(r), chi.URLParam(r, "run_id"))
	if err != nil {
		return answer{}, err
	}
	return ok(runBody(run))
}

// stopAgentRun answers POST …/stop at once; the end comes as an event. One that has ended stays as it is.
func (s *server) stopAgentRun(r *http.Request) (answer, error) {
	run, err := s.Runs.Stop(r.Context(), ownerOf(r), chi.URLParam(r, "run_id"))
	if err != nil {
		return answer{}, err
	}
	return ok(runBody(run))
}

// steerAgentRun answers POST …/steer {"text"}: said into the run, behind its next tool result.
func (s *server) steerAgentRun(r *http.Request) (answer, error) {
	o, err := s.jsonBody(r)
	if err != nil {
		return answer{}, err
	}
	var text string
	if err := o.read(into("text", &text)); err != nil {
		return answer{}, err
	}
	if strings.TrimSpace(text) == "" {
		return answer{}, errField("text", "is empty; it is what is said")
	}
	accepted, err := s.Runs.Steer(r.Context(), ownerOf(r), chi.URLParam(r, "run_id"), text)
	if err != nil {
		return answer{}, err
	}
	return answer{http.StatusAccepted, map[string]any{"object": "message.accepted", "accepted": accepted, "run_id": chi.URLParam(r, "run_id")}}, nil
}

// approveAgentRun answers POST …/approval {"decision","approval_id"}.
func (s *server) approveAgentRun(r *http.Request) (answer, error) {
	o, err := s.jsonBody(r)
	if err != nil {
		return answer{}, err
	}
	var decision, approval, by string
	if err := o.read(into("decision", &decision), into("approval_id", &approval), into("by", &by)); err != nil {
		return answer{}, err
	}
	if decision == "" {
		return answer{}, errField("decision", "is missing; it is once, session, always or deny")
	}
	a, err := s.Runs.Approve(r.Context(), ownerOf(r), chi.URLParam(r, "run_id"), approval, decision, strings.TrimSpace("api "+by))
	if err != nil {
		return answer{}, err
	}
	return ok(map[string]any{"approval": a, "run_id": chi.URLParam(r, "run_id")})
}
