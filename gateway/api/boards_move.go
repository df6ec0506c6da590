package api

import (
	"io"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"gatewayd/kanban"
)

// boardRoutes are what becomes of whole boards.
func (s *server) boardRoutes(r chi.Router) {
	to := s.behind(r)
	to.boards.Post("/api/boards/import", s.handle(s.importBoard))
	to.read.Get("/api/boards/archived", s.handle(s.archivedBoards))
	to.boards.Post("/api/boards/restore", s.handle(s.restoreBoard))
	to.boards.Delete("/api/boards/{board}", s.handle(s.removeBoard))
	to.boards.Post("/api/boards/{board}/switch", s.handle(s.switchBoard))
	to.read.With(s.patientAnswer).Get("/api/boards/{board}/export", s.exportBoard)
	to.boards.Post("/api/boards/{board}/gc", s.handle(s.collect))
}

// removeBoard answers DELETE /api/boards/{board}: it is archived, and with ?delete=true it is deleted for good.
func (s *server) removeBoard(r *http.Request) (answer, error) {
	slug, err := s.slug(r)
	if err != nil {
		return answer{}, err
	}
	q := newQuery(r)
	forGood := q.flag("delete")
	if q.err != nil {
		return answer{}, q.err
	}
	removed, err := s.Boards.Remove(r.Context(), slug, forGood)
	if err != nil {
		return answer{}, err
	}
	s.wake(slug)
	return ok(removed)
}

// archivedBoards answers GET /api/boards/archived: those that were moved away, the newest first.
func (s *server) archivedBoards(*http.Request) (answer, error) {
	if s.Boards == nil {
		return answer{}, errOff("the board directory")
	}
	list, err := s.Boards.Archived()
	if err != nil {
		return answer{}, err
	}
	return ok(map[string]any{"object": "list", "boards": listOf(list)})
}

// restoreBoard answers POST /api/boards/restore {name}: an archived board is put back.
func (s *server) restoreBoard(r *http.Request) (answer, error) {
	if s.Boards == nil {
		return answer{}, errOff("the board directory")
	}
	o, err := s.jsonBody(r)
	if err != nil {
		return answer{}, err
	}
	var name *string
	if err := o.read(wanted("name", &name)); err != nil {
		return answer{}, err
	}
	info, err := s.Boards.Restore(*name)
	if err != nil {
		return answer{}, err
	}
	s.wake(info.Slug)
	return ok(map[string]any{"board": info})
}

// switchBoard answers POST /api/boards/{board}/switch: it is the one that is meant where none is named.
func (s *server) switchBoard(r *http.Request) (answer, error) {
	slug, err := s.slug(r)
	if err != nil {
		return answer{}, err
	}
	if err := s.Boards.SetCurrent(slug); err != nil {
		return answer{}, err
	}
	return ok(map[string]any{"current": s.Boards.Current()})
}

// exportBoard sends a board as one archive. What fails before its first byte has a status; what fails later cuts the
// connection, so that nobody takes half an archive for a whole one.
func (s *server) exportBoard(w http.ResponseWriter, r *http.Request) {
	out := &lateBody{w: w}
	_, err := s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
		q := newQuery(r)
		o := kanban.ExportOptions{Version: s.Version}
		o.Attachments, o.Logs = !q.flag("no_attachments"), !q.flag("no_logs")
		if q.err != nil {
			return answer{}, q.err
		}
		w.Header().Set("Content-Type", "application/gzip")
		w.Header().Set("Content-Disposition", disposition(string(slug)+"-"+time.Now().Format("20060102-150405")+".tar.gz"))
		_, err := s.Boards.Export(r.Context(), board, out, o)
		return answer{}, err
	})
	switch {
	case err == nil:
	case out.begun:
		s.Log.Warn("export was cut off", "path", r.URL.Path, "error", err)
		panic(http.ErrAbortHandler)
	default:
		w.Header().Del("Content-Disposition")
		s.fail(w, r, err)
	}
}

// lateBody knows whether anything was sent.
type lateBody struct {
	w     io.Writer
	begun bool
}

func (l *lateBody) Write(p []byte) (int, error) {
	l.begun = true
	return l.w.Write(p)
}

// importBoard answers POST /api/boards/import, whose body is the archive, with 201. Its slug and name may be given anew.
func (s *server) importBoard(r *http.Request) (answer, error) {
	if s.Boards == nil {
		return answer{}, errOff("the board directory")
	}
	q := newQuery(r)
	o := kanban.ImportOptions{Name: q.text("name")}
	if name := q.text("slug"); name != "" {
		slug, err := kanban.ParseSlug(name)
		if err != nil {
			return answer{}, err
		}
		o.Slug = slug
	}
	done, err := s.Boards.Import(r.Context(), s.patient(r, r.Body), o)
	if err != nil {
		return answer{}, err
	}
	s.wake(done.Board.Slug)
	return answer{http.StatusCreated, done}, nil
}

// collect answers POST /api/boards/{board}/gc.
func (s *server) collect(r *http.Request) (answer, error) {
	o, err := s.jsonBody(r)
	if err != nil {
		return answer{}, err
	}
	usual := int64(kanban.DefaultRetention / (24 * time.Hour))
	events, logs := usual, usual
	if err := o.read(into("event_retention_days", &events), into("log_retention_days", &logs)); err != nil {
		return answer{}, err
	}
	const most = 36500 // a hundred years
	for name, n := range map[string]int64{"event_retention_days": events, "log_retention_days": logs} {
		if n < 0 || n > most {
			return answer{}, errField(name, "must be from 0 to %d", most)
		}
	}
	return s.onBoard(r, func(_ kanban.Slug, board *kanban.Board) (answer, error) {
		done, err := board.GC(r.Context(), kanban.GC{Events: time.Duration(events) * 24 * time.Hour, Logs: time.Duration(logs) * 24 * time.Hour})
		if err != nil {
			return answer{}, err
		}
		return ok(done)
	})
}
