package web

import (
	"context"
	"html/template"
	"log/slog"
	"net/http"

	"github.com/go-chi/chi/v5"

	"gatewayd/gateway"
	"gatewayd/gateway/api"
	"gatewayd/kanban"
)

// Boards is the directory of boards, as far as it is shown. Acquire lends a board's open file; release gives it back.
type Boards interface {
	Boards() ([]kanban.Info, error)
	Current() kanban.Slug
	Lookup(slug kanban.Slug) (kanban.Info, error)
	ReadLog(slug kanban.Slug, task string, tail int64) (kanban.WorkerLog, error)
	Acquire(ctx context.Context, slug kanban.Slug) (board *kanban.Board, release func(), err error)
}

// Options are what the pages show. Boards is needed; a page whose source is nil says that it is off.
type Options struct {
	Boards Boards
	Why    Why      // nil: nobody dispatches here
	Lanes  []string // names that a card may be given to

	// Diagnose finds what a person should know of a board; nil: nobody looks.
	Diagnose func(context.Context, *kanban.Board) ([]kanban.Diagnostic, error)

	Sessions  Sessions
	Approvals Approvals                         // nil: nobody is asked
	Turns     func() gateway.Status             // nil: it is not known what runs
	Status    func(context.Context) any         // what GET /api/status says; nil: nothing
	Checks    func(context.Context) []api.Check // those of /health/detailed; nil: none

	Version string
	Log     *slog.Logger // nil: discarded
}

// site is the handler's parts. They do not change after New.
type site struct {
	Options
	files *assets
	views map[string]*template.Template
}

// New builds the page's handler. It starts nothing. It panics where its own templates cannot be read, which a test finds first.
func New(o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &site{Options: o, files: readAssets()}
	s.views = s.readViews()
	r := chi.NewRouter()
	r.Use(policy)
	r.Get("/static/{file}", s.files.serve)
	r.Get("/login", s.show(s.login))
	r.NotFound(s.show(s.notFound))
	s.boardRoutes(r)
	s.talkRoutes(r)
	return r
}

// policy lets the browser run and fetch what is ours and nothing else.
func policy(next http.Handler) http.Handler {
	const csp = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", csp)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // with no-referrer a browser's own forms come from the origin "null"
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
