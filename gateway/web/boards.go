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
	r.Get("/boards", s.show(s.boards))
	r.Get("/boards/{board}", s.show(s.board))
	r.Get("/boards/{board}/timeline", s.show(s.timeline))
	r.Get("/boards/{board}/tasks/{task}", s.show(s.card))
}

// boardList is the page of all boards.
type boardList struct {
	Boards   []kanban.Counted
	Statuses []kanban.Status
}

// boards answers GET / and GET /boards.
func (s *site) boards(r *http.Request) (page, error) {
	p := page{View: "boards", Title: "Boards", Mark: "boards"}
	list, err := s.Boards.Boards()
	if err != nil {
		return p, err
	}
	view, current := boardList{Statuses: shownStatuses(false)}, s.Boards.Current()
	for _, info := range list {
		view.Boards = append(view.Boards, s.counted(r.Context(), info, current))
	}
	p.Data = view
	return p, nil
}

// counted counts a board's cards. A board that cannot be read does not keep the others from being shown.
func (s *site) counted(ctx context.Context, info kanban.Info, current kanban.Slug) kanban.Counted {
	c, err := kanban.Count(ctx, info, current, s.Boards.Acquire)
	if err != nil && c.Trouble == "" {
		words, _ := asTrouble(err)
		c.Trouble = words.sentence()
	}
	return c
}

// onBoard runs f with the open file of the path's board. The page is f's, and knows its board also where f fails.
func (s *site) onBoard(r *http.Request, f func(p *page, info kanban.Info, board *kanban.Board) error) (page, error) {
	p := page{Mark: "boards"}
	slug, err := kanban.ParseSlug(chi.URLParam(r, "board"))
	if err != nil {
		return p, err
	}
	info, err := s.Boards.Lookup(slug)
	if err != nil {
		return p, err
	}
	p.Board, p.Title = slug, nameOf(info)
	p.Events = "/api/boards/" + string(slug) + "/events"
	board, release, err := s.Boards.Acquire(r.Context(), slug)
	if err != nil {
		return p, err
	}
	defer release()
	return p, f(&p, info, board)
}

// nameOf is what people call a board.
func nameOf(info kanban.Info) string {
	if info.Name != "" {
		return info.Name
	}
	return string(info.Slug)
}

func shownStatuses(archived bool) []kanban.Status {
	all := kanban.Statuses()
	if archived {
		return all
	}
	return all[:len(all)-1]
}
