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
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
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
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
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
	err := o.read(
		into("title", &card.Title), into("body", &card.Body), into("assignee", &card.Assignee), into("parents", &card.Parents),
		into("tenant", &card.Tenant), into("priority", &card.Priority), into("workspace_kind", &card.WorkspaceKind),
		into("workspace_path", &card.WorkspacePath), into("branch_name", &card.BranchName), into("project_id", &card.ProjectID),
		into("triage", &card.Triage), into("initial_status", &card.InitialStatus), into("idempotency_key", &card.IdempotencyKey),
		into("max_runtime_seconds", &card.MaxRuntimeSeconds), into("skills", &card.Skills), into("max_retries", &card.MaxRetries),
		into("goal_mode", &card.GoalMode), into("goal_max_turns", &card.GoalMaxTurns), into("model_override", &card.ModelOverride),
		into("provider_override", &card.ProviderOverride), into("reasoning_effort", &card.ReasoningEffort),
		into("completion_contract", &card.CompletionContract), into("session_id", &card.SessionID),
	)
	if err != nil {
		return card, err
	}
	if card.Title == "" {
		return card, errField("title", "is missing")
	}
	return card, nil
}

// showTask answers GET /api/boards/{board}/tasks/{task}: the card with its links, comments, events and runs.
func (s *server) showTask(r *http.Request) (answer, error) {
	return s.onBoard(r, func(_ kanban.Slug, board *kanban.Board) (answer, error) {
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
