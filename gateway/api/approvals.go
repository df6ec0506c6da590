package api

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"gatewayd/gateway"
	toolset "gatewayd/gateway/tool"
	"gatewayd/sessiondb"
)

// Approvals is what waits for a person: gateway.Approvals.
type Approvals interface {
	List(ctx context.Context, f sessiondb.ApprovalFilter) ([]gateway.Approval, error)
	Get(ctx context.Context, id string) (gateway.Approval, error)
	Decide(ctx context.Context, id string, choice toolset.Choice, by string) (gateway.Approval, error)
	Grants(ctx context.Context) ([]sessiondb.Grant, error)
	Revoke(ctx context.Context, session, rule, by string) error
}

func (s *server) approvalRoutes(r chi.Router) {
	to := s.behind(r)
	to.read.Get("/api/approvals", s.handle(s.onApprovals(s.listApprovals)))
	to.read.Get("/api/approvals/{approval}", s.handle(s.onApprovals(s.showApproval)))
	to.admin.Post("/api/approvals/{approval}", s.handle(s.onApprovals(s.decideApproval)))
	to.read.Get("/api/grants", s.handle(s.onApprovals(s.listGrants)))
	to.admin.Delete("/api/grants/{rule}", s.handle(s.onApprovals(s.revokeGrant)))
}

// onApprovals refuses where there is nobody to ask.
func (s *server) onApprovals(f func(*http.Request) (answer, error)) func(*http.Request) (answer, error) {
	return func(r *http.Request) (answer, error) {
		if s.Approvals == nil {
			return answer{}, errOff("asking for approval")
		}
		return f(r)
	}
}

// listApprovals answers GET /api/approvals?state=&session=&limit=, the newest first: those that wait, or with state=all the whole record.
func (s *server) listApprovals(r *http.Request) (answer, error) {
	q := newQuery(r)
	f := sessiondb.ApprovalFilter{State: q.text("state"), Session: q.text("session"), Limit: int(q.number("limit", 1, 10_000))}
	switch f.State {
	case "":
		f.State = sessiondb.ApprovalPending
	case "all":
		f.State = ""
	case sessiondb.ApprovalPending, sessiondb.ApprovalApproved, sessiondb.ApprovalDenied:
	default:
		q.fail("state", "must be pending, approved, denied or all, not %.50q", f.State)
	}
	if q.err != nil {
		return answer{}, q.err
	}
	list, err := s.Approvals.List(r.Context(), f)
	if err != nil {
		return answer{}, err
	}
	return ok(map[string]any{"object": "list", "approvals": listOf(list)})
}

func (s *server) showApproval(r *http.Request) (answer, error) {
	a, err := s.Approvals.Get(r.Context(), chi.URLParam(r, "approval"))
	if err != nil {
		return answer{}, err
	}
	return ok(map[string]any{"approval": a})
}

// decideApproval answers POST /api/approvals/{id} {"decision":"once|session|always|deny","by":"who"}. Who is second gets 409.
func (s *server) decideApproval(r *http.Request) (answer, error) {
	o, err := s.jsonBody(r)
	if err != nil {
		return answer{}, err
	}
	var decision, by string
	if err := o.read(into("decision", &decision), into("by", &by)); err != nil {
		return answer{}, err
	}
	a, err := s.Approvals.Decide(r.Context(), chi.URLParam(r, "approval"), toolset.Choice(decision), "api "+by)
	if err != nil {
		return answer{}, err
	}
	return ok(map[string]any{"approval": a})
}

func (s *server) listGrants(r *http.Request) (answer, error) {
	list, err := s.Approvals.Grants(r.Context())
	if err != nil {
		return answer{}, err
	}
	return ok(map[string]any{"object": "list", "grants": listOf(list)})
}

// revokeGrant answers DELETE /api/grants/{rule}?session=&by=. Without a session it is the grant for always.
func (s *server) revokeGrant(r *http.Request) (answer, error) {
	q := newQuery(r)
	if err := s.Approvals.Revoke(r.Context(), q.text("session"), chi.URLParam(r, "rule"), "api "+q.text("by")); err != nil {
		return answer{}, err
	}
	return ok(map[string]any{"ok": true})
}

// approvalEvent names the events of a stream that ask a person. Their data is a chunk with an empty delta, as that of all our events.
const approvalEvent = "gatewayd.approval"

// approval asks whoever reads the stream. What they decide comes by another request.
func (o *chunkWriter) approval(e gateway.Event) {
	if e.Approval == nil {
		return
	}
	o.begin()
	o.chunk(approvalEvent, map[string]any{}, nil, map[string]any{"approval": e.Approval, "decisions": toolset.Choices, "toolCallId": e.CallID, "tool": e.Tool})
}
