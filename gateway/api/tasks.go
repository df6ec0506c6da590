package api

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"gatewayd/internal/mutation"
	"gatewayd/kanban"
)

// taskRoutes are the cards of a board.
func (s *server) taskRoutes(r chi.Router) {
	to := s.behind(r)
	to.read.Get("/api/boards/{board}/tasks", s.handle(s.listTasks))
	to.boards.Post("/api/boards/{board}/tasks", s.handle(s.createTask))
	to.read.Get("/api/boards/{board}/tasks/{task}", s.handle(s.showTask))
	to.boards.Delete("/api/boards/{board}/tasks/{task}", s.handle(s.deleteTask))
	to.boards.Post("/api/boards/{board}/tasks/{task}/purge", s.handle(s.purgeTask))
	to.read.Get("/api/boards/{board}/tasks/{task}/why", s.handle(s.why))
}

// listTasks answers GET /api/boards/{board}/tasks.
func (s *server) listTasks(r *http.Request) (answer, error) {
	filter, err := filterOf(newQuery(r))
	if err != nil {
		return answer{}, err
	}
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
		cards, err := board.List(r.Context(), filter)
		if err != nil {
			return answer{}, err
		}
		pause, err := board.Paused(r.Context())
		if err != nil {
			return answer{}, err
		}
		return ok(map[string]any{"object": "list", "board": slug, "pause": pause, "tasks": listOf(cards)})
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
	if key := r.Header.Get(headerOnce); card.IdempotencyKey == "" && key != "" {
		card.IdempotencyKey, card.OneRequest = callerID(r.Context())+" "+key, true // of one holder, as everywhere
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
	card := kanban.NewTask{CreatedBy: speaker}
	err := o.read(into("created_by", &card.CreatedBy), into("creator_task_id", &card.CreatorTask),
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
		return card, errField(o.name("title"), "is missing")
	}
	return card, nil
}

// showTask answers GET /api/boards/{board}/tasks/{task}: the card with its links, comments, files, events and runs.
// run_state_type (status or outcome) with run_state_name shows only the runs of that state.
func (s *server) showTask(r *http.Request) (answer, error) {
	q := newQuery(r)
	state := kanban.RunState{By: q.text("run_state_type"), Name: q.text("run_state_name")}
	return s.onBoard(r, func(_ kanban.Slug, board *kanban.Board) (answer, error) {
		body, err := s.reads.read(board, r.URL.RequestURI(), func() (any, error) { return showCard(r.Context(), board, chi.URLParam(r, "task"), state) })
		if err != nil {
			return answer{}, err
		}
		return ok(body)
	})
}

// showCard reads a card whole.
func showCard(ctx context.Context, board *kanban.Board, id string, state kanban.RunState) (any, error) {
	d, err := board.Show(ctx, id)
	if err != nil {
		return nil, err
	}
	if d.Runs, err = state.Of(d.Runs); err != nil {
		return nil, err
	}
	body := map[string]any{
		"task": d.Task, "parents": listOf(d.Parents), "children": listOf(d.Children),
		"links":    map[string]any{"parents": listOf(d.Parents), "children": listOf(d.Children)},
		"comments": listOf(d.Comments), "events": listOf(d.Events), "runs": listOf(d.Runs), "attachments": listOf(d.Attachments),
		"latest_summary": nil,
	}
	if d.LatestSummary != "" {
		body["latest_summary"] = d.LatestSummary
	}
	if mutation.On("answer-loses-a-field") {
		delete(body, "links")
	}
	return body, nil
}

// deleteTask answers DELETE /api/boards/{board}/tasks/{task}: the card is removed for good, with all that hangs on it.
func (s *server) deleteTask(r *http.Request) (answer, error) {
	return s.removeTask(r, (*kanban.Board).Delete)
}

// purgeTask answers POST …/tasks/{task}/purge: deleteTask for an archived card only.
func (s *server) purgeTask(r *http.Request) (answer, error) {
	o, err := s.optionalBody(r)
	if err == nil {
		err = o.done()
	}
	if err != nil {
		return answer{}, err
	}
	return s.removeTask(r, (*kanban.Board).Purge)
}

func (s *server) removeTask(r *http.Request, remove func(*kanban.Board, context.Context, string) ([]string, error)) (answer, error) {
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
		id := chi.URLParam(r, "task")
		if _, err := remove(board, r.Context(), id); err != nil {
			return answer{}, err
		}
		s.wake(slug)
		return ok(map[string]any{"ok": true, "deleted": id})
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
	if err := s.Boards.Known(slug); err != nil {
		return answer{}, err
	}
	body, err := s.Dispatch.Why(r.Context(), slug, chi.URLParam(r, "task"))
	if err != nil {
		return answer{}, err
	}
	return ok(body)
}
