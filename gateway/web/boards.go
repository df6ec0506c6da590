package web

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"gatewayd/kanban"
)

// boardRoutes are the boards and what is on them.
func (s *site) boardRoutes(r chi.Router) {
	r.Get("/", s.show(s.boards))
}

// boardList is the page of all boards.
type boardList struct {
	Boards  []kanban.Counted
	Current kanban.Slug
}

// boards answers GET /.
func (s *site) boards(r *http.Request) (page, error) {
	p := page{View: "boards", Title: "Boards", Mark: "boards"}
	list, err := s.Boards.Boards()
	if err != nil {
		return p, err
	}
	view := boardList{Current: s.Boards.Current()}
	for _, info := range list {
		view.Boards = append(view.Boards, s.counted(r.Context(), info, view.Current))
	}
	p.Data = view
	return p, nil
}

// counted counts a board's cards. A board that cannot be read does not keep the others from being shown.
func (s *site) counted(ctx context.Context, info kanban.Info, current kanban.Slug) kanban.Counted {
	c, err := kanban.Count(ctx, info, current, s.Boards.Acquire)
	if err != nil && c.Trouble == "" {
		words, _ := asTrouble(err)
		c.Trouble = words.What
	}
	return c
}
