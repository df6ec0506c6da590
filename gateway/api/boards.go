package api

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"gatewayd/kanban"
)

// slug reads the board of the path by the one rule for names.
func (s *server) slug(r *http.Request) (kanban.Slug, error) {
	if s.Boards == nil {
		return "", errOff("the board directory")
	}
	return kanban.ParseSlug(chi.URLParam(r, "board"))
}

// onBoard runs f with a board's open file.
func (s *server) onBoard(r *http.Request, f func(kanban.Slug, *kanban.Board) (answer, error)) (answer, error) {
	slug, err := s.slug(r)
	if err != nil {
		return answer{}, err
	}
	if err := s.Boards.Known(slug); err != nil {
		return answer{}, err
	}
	board, release, err := s.Boards.Acquire(r.Context(), slug)
	if err != nil {
		return answer{}, err
	}
	defer release()
	return f(slug, board)
}

// directoryRoutes are the boards of this home, and what people say about them.
func (s *server) directoryRoutes(r chi.Router) {
	to := s.behind(r)
	to.read.Get("/api/boards", s.handle(s.listBoards))
	to.boards.Post("/api/boards", s.handle(s.createBoard))
	to.read.Get("/api/boards/{board}", s.handle(s.showBoard))
	to.boards.Patch("/api/boards/{board}", s.handle(s.patchBoard))
}

// listBoards answers GET /api/boards; include_archived shows the archived ones too.
func (s *server) listBoards(r *http.Request) (answer, error) {
	if s.Boards == nil {
		return answer{}, errOff("the board directory")
	}
	q := newQuery(r)
	boards := s.Boards.Boards
	if q.flag("include_archived") {
		boards = s.Boards.AllBoards
	}
	if q.err != nil {
		return answer{}, q.err
	}
	list, err := boards()
	if err != nil {
		return answer{}, err
	}
	current := s.Boards.Current()
	shown := make([]kanban.Counted, 0, len(list))
	for _, info := range list {
		shown = append(shown, s.counted(r.Context(), info, current))
	}
	return ok(map[string]any{"object": "list", "boards": shown, "current": current})
}

// counted counts a board's cards. A board that cannot be read does not keep the others from being shown.
func (s *server) counted(ctx context.Context, info kanban.Info, current kanban.Slug) kanban.Counted {
	shown, err := kanban.Count(ctx, info, current, s.Boards.Acquire)
	if err != nil && shown.Trouble == "" {
		shown.Trouble = asRefusal(err).message
	}
	return shown
}

// patchBoard answers PATCH /api/boards/{board}: what people say about it is changed, "" clears a field.
func (s *server) patchBoard(r *http.Request) (answer, error) {
	slug, err := s.slug(r)
	if err != nil {
		return answer{}, err
	}
	o, err := s.jsonBody(r)
	if err != nil {
		return answer{}, err
	}
	var change kanban.MetaChange
	err = o.read(
		into("name", &change.Name), into("description", &change.Description), into("icon", &change.Icon), into("color", &change.Color),
		into("default_workdir", &change.DefaultWorkdir), into("project_id", &change.ProjectID), into("max_in_progress", &change.MaxInProgress),
	)
	if err != nil {
		return answer{}, err
	}
	info, err := s.Boards.Update(slug, change)
	if err != nil {
		return answer{}, err
	}
	s.wake(slug)
	return ok(map[string]any{"board": info})
}

// createBoard answers POST /api/boards with 201. Its name is the slug's when none is given.
func (s *server) createBoard(r *http.Request) (answer, error) {
	if s.Boards == nil {
		return answer{}, errOff("the board directory")
	}
	o, err := s.jsonBody(r)
	if err != nil {
		return answer{}, err
	}
	var name string
	var meta kanban.Meta
	err = o.read(
		into("slug", &name), into("name", &meta.Name), into("description", &meta.Description), into("icon", &meta.Icon),
		into("color", &meta.Color), into("default_workdir", &meta.DefaultWorkdir), into("project_id", &meta.ProjectID),
	)
	if err != nil {
		return answer{}, err
	}
	if name == "" {
		return answer{}, errField("slug", "is missing; it names the board")
	}
	slug, err := kanban.ParseSlug(name)
	if err != nil {
		return answer{}, err
	}
	info, err := s.Boards.Create(r.Context(), slug, meta)
	if err != nil {
		return answer{}, err
	}
	if fresh, err := s.Boards.Lookup(slug); err == nil {
		info = fresh // with the file that was just made
	}
	s.wake(slug)
	return answer{http.StatusCreated, map[string]any{"board": info}}, nil
}

// showBoard answers GET /api/boards/{board}: what it is, and how many cards it has. A board whose file is missing or cannot be read is
// shown all the same, with the reason.
func (s *server) showBoard(r *http.Request) (answer, error) {
	slug, err := s.slug(r)
	if err != nil {
		return answer{}, err
	}
	info, err := s.Boards.Lookup(slug)
	if err != nil {
		return answer{}, err
	}
	body := map[string]any{"board": info, "stats": nil}
	if !info.HasFile {
		return ok(body)
	}
	_, err = s.onBoard(r, func(_ kanban.Slug, board *kanban.Board) (answer, error) {
		stats, err := board.Stats(r.Context())
		if err == nil {
			body["stats"] = stats
		}
		return answer{}, err
	})
	if err != nil {
		body["trouble"] = asRefusal(err).message
	}
	return ok(body)
}

func (s *server) wake(slug kanban.Slug) {
	s.boardWatch.nudge(slug)
	if s.Dispatch != nil {
		s.Dispatch.Wake(slug)
	}
}

// jsonBody reads a request's body as an object.
func (s *server) jsonBody(r *http.Request) (object, error) {
	body, err := s.readBody(r)
	if err != nil {
		return object{}, err
	}
	return parseObject(body)
}
