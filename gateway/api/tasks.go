package api

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"gatewayd/kanban"
)

// listTasks answers GET /api/boards/{board}/tasks.
func (s *server) listTasks(r *http.Request) (answer, error) {
	q := newQuery(r)
	filter := kanban.Filter{
		Status: kanban.Status(q.text("status")), Assignee: q.text("assignee"), Tenant: q.text("tenant"), Session: q.text("session"),
		Archived: q.flag("include_archived"), Sort: q.text("sort"), Limit: int(q.number("limit", 1, 1_000_000)),
	}
	if q.err != nil {
		return answer{}, q.err
	}
	return s.onBoard(r, func(slug kanban.Slug, board Board) (answer, error) {
		cards, err := board.List(r.Context(), filter)
		if err != nil {
			return answer{}, err
		}
		return ok(map[string]any{"object": "list", "board": slug, "tasks": listOf(cards)})
	})
}

// createTask answers POST /api/boards/{board}/tasks with 201 and wakes the dispatcher. Where nobody dispatches, the answer warns.
func (s *server) createTask(r *http.Request) (answer, error) {
	o, err := s.jsonBody(r)
	if err != nil {
		return answer{}, err
	}
	card, err := parseCard(o)
	if err != nil {
		return answer{}, err
	}
	if key := r.Header.Get("Idempotency-Key"); card.IdempotencyKey == "" {
		card.IdempotencyKey = key
	}
	return s.onBoard(r, func(slug kanban.Slug, board Board) (answer, error) {
		if info, err := s.Boards.Lookup(slug); err == nil {
			card.DefaultWorkdir = info.DefaultWorkdir
		}
		made, err := board.Create(r.Context(), card)
		if err != nil {
			return answer{}, err
		}
		s.wake(slug)
		body := map[string]any{"task": made}
		if s.Dispatch == nil {
			body["warning"] = "no dispatcher runs in this daemon; the card waits until one does"
		}
		return answer{http.StatusCreated, body}, nil
	})
}

// parseCard reads a new card. It is pure.
func parseCard(o object) (kanban.NewTask, error) {
	card := kanban.NewTask{CreatedBy: "api"}
	for _, step := range []func() error{
		func() error { return take(o, "title", &card.Title) },
		func() error { return take(o, "body", &card.Body) },
		func() error { return take(o, "assignee", &card.Assignee) },
		func() error { return take(o, "parents", &card.Parents) },
		func() error { return take(o, "tenant", &card.Tenant) },
		func() error { return take(o, "priority", &card.Priority) },
		func() error { return take(o, "workspace_kind", &card.WorkspaceKind) },
		func() error { return take(o, "workspace_path", &card.WorkspacePath) },
		func() error { return take(o, "branch_name", &card.BranchName) },
		func() error { return take(o, "project_id", &card.ProjectID) },
		func() error { return take(o, "triage", &card.Triage) },
		func() error { return take(o, "initial_status", (*string)(&card.InitialStatus)) },
		func() error { return take(o, "idempotency_key", &card.IdempotencyKey) },
		func() error { return take(o, "max_runtime_seconds", &card.MaxRuntimeSeconds) },
		func() error { return take(o, "skills", &card.Skills) },
		func() error { return take(o, "max_retries", &card.MaxRetries) },
		func() error { return take(o, "goal_mode", &card.GoalMode) },
		func() error { return take(o, "goal_max_turns", &card.GoalMaxTurns) },
		func() error { return take(o, "model_override", &card.ModelOverride) },
		func() error { return take(o, "provider_override", &card.ProviderOverride) },
		func() error { return take(o, "reasoning_effort", &card.ReasoningEffort) },
		func() error { return take(o, "completion_contract", &card.CompletionContract) },
		o.done,
	} {
		if err := step(); err != nil {
			return card, err
		}
	}
	if card.Title == "" {
		return card, errField("title", "is missing")
	}
	return card, nil
}

// showTask answers GET /api/boards/{board}/tasks/{task}: the card with its links, comments, events and runs.
func (s *server) showTask(r *http.Request) (answer, error) {
	return s.onBoard(r, func(_ kanban.Slug, board Board) (answer, error) {
		detail, err := board.Show(r.Context(), chi.URLParam(r, "task"))
		if err != nil {
			return answer{}, err
		}
		return ok(detail)
	})
}

// why answers GET …/tasks/{task}/why: each gate that holds the card back.
func (s *server) why(r *http.Request) (answer, error) {
	slug, err := s.slug(r)
	if err != nil {
		return answer{}, err
	}
	if s.Dispatch == nil {
		return answer{}, errOff("the dispatcher")
	}
	if _, err := s.Boards.Lookup(slug); err != nil {
		return answer{}, err
	}
	body, err := s.Dispatch.Why(r.Context(), slug, chi.URLParam(r, "task"))
	if err != nil {
		return answer{}, err
	}
	return ok(body)
}
