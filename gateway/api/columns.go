package api

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"gatewayd/internal/mutation"
	"gatewayd/kanban"
)

// columnRoutes are a board as people look at it.
func (s *server) columnRoutes(r chi.Router) {
	to := s.behind(r)
	to.read.Get("/api/boards/{board}/columns", s.handle(s.columns))
	to.read.Get("/api/boards/{board}/workflow", s.handle(s.workflow))
	to.read.Get("/api/boards/{board}/timers", s.handle(s.timers))
}

// columns answers GET …/columns: the cards by status, with what hangs on each.
func (s *server) columns(r *http.Request) (answer, error) {
	filter, err := filterOf(newQuery(r))
	if err != nil {
		return answer{}, err
	}
	return s.onBoard(r, func(_ kanban.Slug, board *kanban.Board) (answer, error) {
		columns, err := board.Columns(r.Context(), filter)
		if err != nil {
			return answer{}, err
		}
		found, err := s.diagnose(r, board)
		if err != nil {
			return answer{}, err
		}
		if !mutation.On("columns-without-warnings") {
			columns.Note(found)
		}
		return ok(columns)
	})
}

// filterOf reads which cards are wanted, and in what order.
func filterOf(q *query) (kanban.Filter, error) {
	filter := kanban.Filter{
		Status: kanban.Status(q.text("status")), Assignee: q.text("assignee"), Tenant: q.text("tenant"), Session: q.text("session"),
		WorkflowTemplateID: q.text("workflow_template_id"), CurrentStepKey: q.text("current_step_key"),
		Archived: q.flag("include_archived"), Sort: q.text("sort"), Limit: int(q.number("limit", 1, 1_000_000)),
	}
	return filter, q.err
}

// workflow answers GET …/workflow: the columns in their order, and from each the ones to which a person may move a card.
func (s *server) workflow(r *http.Request) (answer, error) {
	slug, err := s.slug(r)
	if err != nil {
		return answer{}, err
	}
	if err := s.Boards.Known(slug); err != nil {
		return answer{}, err
	}
	moves := map[kanban.Status][]kanban.Status{}
	for _, from := range kanban.Statuses() {
		moves[from] = listOf(kanban.Moves(from))
	}
	return ok(map[string]any{"columns": kanban.Statuses(), "moves": moves})
}

// timers answers GET …/timers: when the scheduled cards wake.
func (s *server) timers(r *http.Request) (answer, error) {
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
		timers, err := board.Timers(r.Context())
		if err != nil {
			return answer{}, err
		}
		return ok(map[string]any{"object": "list", "board": slug, "timers": listOf(timers)})
	})
}
