package api

import (
	"net/http"
	"slices"

	"gatewayd/kanban"
)

// diagnostics answers GET /api/boards/{board}/diagnostics?severity=&task=.
func (s *server) diagnostics(r *http.Request) (answer, error) {
	q := newQuery(r)
	least, task := kanban.Severity(q.text("severity")), q.text("task")
	if least != "" && !slices.Contains(kanban.Severities(), least) {
		q.fail("severity", "must be warning, error or critical, not %.50q", string(least))
	}
	if q.err != nil {
		return answer{}, q.err
	}
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
		found, err := s.diagnose(r, board)
		if err != nil {
			return answer{}, err
		}
		found = slices.DeleteFunc(found, func(d kanban.Diagnostic) bool {
			return task != "" && d.Task != task || !d.Severity.AtLeast(least)
		})
		return ok(map[string]any{"object": "list", "board": slug, "diagnostics": listOf(found), "count": len(found)})
	})
}

// diagnose asks the dispatcher, who knows lanes, or the board alone where nobody dispatches.
func (s *server) diagnose(r *http.Request, board *kanban.Board) ([]kanban.Diagnostic, error) {
	if s.Diagnose != nil {
		return s.Diagnose(r.Context(), board)
	}
	return board.Diagnose(r.Context(), kanban.Thresholds{})
}
