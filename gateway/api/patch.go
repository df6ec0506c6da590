package api

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"gatewayd/kanban"
)

// patchRoutes change cards by their fields: one card, or many by one rule.
func (s *server) patchRoutes(r chi.Router) {
	to := s.behind(r)
	to.boards.Patch("/api/boards/{board}/tasks/{task}", s.handle(s.patchTask))
	to.boards.Post("/api/boards/{board}/tasks/bulk", s.handle(s.bulk))
}

// patchTask answers PATCH …/tasks/{task}: the fields of the body are changed in one transaction, all or none.
func (s *server) patchTask(r *http.Request) (answer, error) {
	o, err := s.jsonBody(r)
	if err != nil {
		return answer{}, err
	}
	var p kanban.Patch
	if err := o.read(patchInto(&p)...); err != nil {
		return answer{}, err
	}
	return s.changeTask(r, patching(p))
}

func patching(p kanban.Patch) change {
	return releases(func(ctx context.Context, board *kanban.Board, card string) (kanban.Released, error) {
		return board.Patch(ctx, card, p)
	})
}

func patchInto(p *kanban.Patch) []func(object) error {
	return append(modelInto(&p.Model),
		into("title", &p.Title), into("body", &p.Body), into("tenant", &p.Tenant), into("priority", &p.Priority),
		into("max_runtime_seconds", &p.MaxRuntimeSeconds), into("max_retries", &p.MaxRetries), into("skills", &p.Skills),
		into("assignee", &p.Assignee), into("reclaim_first", &p.Reclaim), into("status", &p.Status), into("reason", &p.Reason),
		into("block_reason", &p.BlockReason), into("result", &p.Result), into("summary", &p.Summary), into("metadata", &p.Metadata),
		actorInto(&p.Actor))
}

// maxBulk is how many cards one request may change: each is a transaction of its own, and the client waits for all.
const maxBulk = 500

// bulkResult is what became of one card of many.
type bulkResult struct {
	ID       string           `json:"id"`
	OK       bool             `json:"ok"`
	Error    string           `json:"error,omitempty"`
	Code     string           `json:"code,omitempty"`
	Released *kanban.Released `json:"released,omitempty"`
}

// bulk answers POST …/tasks/bulk: each card by itself, and for each what became of it. archive is the status of that name.
func (s *server) bulk(r *http.Request) (answer, error) {
	o, err := s.jsonBody(r)
	if err != nil {
		return answer{}, err
	}
	var ids []string
	var archive bool
	var p kanban.Patch
	if err := o.read(append(patchInto(&p), into("ids", &ids), into("archive", &archive))...); err != nil {
		return answer{}, err
	}
	switch {
	case len(ids) == 0:
		return answer{}, errField("ids", "is missing; it names the cards")
	case len(ids) > maxBulk:
		return answer{}, errField("ids", "names %d cards; at most %d at once", len(ids), maxBulk)
	case archive && p.Status != nil:
		return answer{}, errField("archive", "does not go together with status")
	case archive:
		p.Status = new(kanban.StatusArchived)
	}
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
		results := make([]bulkResult, 0, len(ids))
		for _, id := range ids {
			results = append(results, patched(r.Context(), board, id, p))
		}
		s.wake(slug)
		return ok(map[string]any{"results": results})
	})
}

func patched(ctx context.Context, board *kanban.Board, id string, p kanban.Patch) bulkResult {
	released, err := board.Patch(ctx, id, p)
	if err != nil {
		e := asRefusal(err)
		return bulkResult{ID: id, Error: e.message, Code: e.code}
	}
	done := bulkResult{ID: id, OK: true}
	if !released.Now {
		done.Released = &released
	}
	return done
}
