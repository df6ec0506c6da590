package api

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"gatewayd/gateway"
	"gatewayd/gateway/keys"
	"gatewayd/gateway/provider"
	"gatewayd/gateway/route"
	"gatewayd/internal/mutation"
	"gatewayd/internal/netguard"
	"gatewayd/kanban"
	"gatewayd/sessiondb"
)

// Defaults of Options.
const (
	DefaultMaxBody   = 10 << 20         // a long conversation with pasted logs; more is a mistake
	DefaultKeepAlive = 15 * time.Second // below the 30 to 60 s after which proxies give up on a silent connection
	DefaultOpenAfter = time.Second      // a stream's headers wait so long for a refusal that deserves a status of its own
	DefaultPatience  = 60 * time.Second // how long one write to a client that does not read may take
	DefaultStreams   = 2000             // in all: each costs a descriptor and some 60 kB
	DefaultOfKey     = 1000             // under one key: many pages and programs of one person
	DefaultBodyTime  = 30 * time.Second // how long a body may take to arrive; one that never does would hold its connection for ever
)

// Chat is the conversations: gateway.Gateway.
type Chat interface {
	Say(ctx context.Context, say gateway.Say, sink func(gateway.Event)) (gateway.Result, error)
	Status() gateway.Status
	Post(ctx context.Context, say gateway.Say) (gateway.Accepted, error)
	Watch(ctx context.Context, session string, sink func(gateway.Event)) error
	Attach(session string, sink func(gateway.Event)) (wait func(ctx context.Context) error)
	Interrupt(session string, cause error) bool
	Forget(session string, cause error) (dropped int)
}

// Sessions reads what was said, and where it is said: sessiondb.Store.
type Sessions interface {
	route.Store
	CreateSession(ctx context.Context, n sessiondb.NewSession) (sessiondb.Session, error)
	SetTitle(ctx context.Context, id, title string) error
	Settings(ctx context.Context, session string) (sessiondb.Settings, error)
	Session(ctx context.Context, id string) (sessiondb.Session, error)
	Sessions(ctx context.Context, filter sessiondb.ListFilter) ([]sessiondb.Session, error)
	Messages(ctx context.Context, session string, filter sessiondb.MessageFilter) ([]sessiondb.Message, error)
	Search(ctx context.Context, query sessiondb.Query) ([]sessiondb.Hit, error)
	Fork(ctx context.Context, from string, upTo int64, n sessiondb.NewSession) (sessiondb.Session, error)
	SetFlags(ctx context.Context, id string, f sessiondb.SessionFlags) error
	EndSession(ctx context.Context, id, reason string) (stamped bool, err error)
	Reopen(ctx context.Context, id string) error
	Delete(ctx context.Context, ids ...string) (sessiondb.Deleted, error)
}

// Store says how the store of the conversations is: sessiondb.Store. State is asked as often as a supervisor likes.
type Store interface {
	State() sessiondb.State
	Health() sessiondb.Health
}

// Boards is the directory of boards. Create makes the board and its file. Acquire lends a board's open file; release gives it back.
type Boards interface {
	Boards() ([]kanban.Info, error)
	AllBoards() ([]kanban.Info, error) // with the archived ones
	Current() kanban.Slug
	SetCurrent(slug kanban.Slug) error
	Update(slug kanban.Slug, change kanban.MetaChange) (kanban.Info, error)
	Lookup(slug kanban.Slug) (kanban.Info, error)
	Known(slug kanban.Slug) error // Lookup without reading anything
	ReadLog(slug kanban.Slug, task string, tail int64) (kanban.WorkerLog, error)
	Create(ctx context.Context, slug kanban.Slug, meta kanban.Meta) (kanban.Info, error)
	Acquire(ctx context.Context, slug kanban.Slug) (board *kanban.Board, release func(), err error)

	Remove(ctx context.Context, slug kanban.Slug, forGood bool) (kanban.Removed, error)
	Archived() ([]kanban.Archived, error)
	Restore(name string) (kanban.Info, error)
	Export(ctx context.Context, board *kanban.Board, w io.Writer, o kanban.ExportOptions) (kanban.Exported, error)
	Import(ctx context.Context, archive io.Reader, o kanban.ImportOptions) (kanban.Imported, error)
}

// Dispatch is told of new cards, explains why one does not run, and looks after all at once when a person asks. The answers are
// sent as they are.
type Dispatch interface {
	Wake(board kanban.Slug)
	Why(ctx context.Context, board kanban.Slug, task string) (any, error)
	Now(ctx context.Context) (any, error)
}

// Notices checks who may be told of events, and tries whether a subscriber hears: the notifier.
type Notices interface {
	Check(ctx context.Context, target, address string) error
	Test(ctx context.Context, board *kanban.Board, subscription int64) error
}

// Check is one line of /health/detailed. Status is ok, off, degraded or failed; Reason says why it is not ok.
type Check struct {
	Name   string     `json:"name"`
	Status string     `json:"status"`
	Reason string     `json:"reason,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	Data   any        `json:"data,omitempty"` // the facts behind the reason, for programs
}

// Options configure the handler. Chat, Sessions and Keys are needed; without a key every request that needs one is refused. Boards and
// Dispatch may be nil: their routes then answer that they are off.
type Options struct {
	Chat     Chat
	Sessions Sessions
	Commands Commands // nil: a text that begins with a slash is a text
	Once     Once     // nil: only the boards remember an Idempotency-Key, for their cards
	Store    Store    // nil: health says nothing of it
	Boards   Boards
	Dispatch Dispatch
	Notices  Notices // nil: nobody can be subscribed

	Approvals Approvals // nil: nobody is asked
	Responses Responses // nil: the Responses API is off
	Runs      Runs      // nil: nothing runs in the background

	// Forget removes what the tools keep of a conversation that was deleted, and ends its commands; nil: they keep nothing.
	Forget   func(ctx context.Context, session string) error
	Settings Settings // nil: nothing is said of them

	Model  func() provider.Description   // nil: unknown
	Checks func(context.Context) []Check // nil: none
	Status func(context.Context) any     // body of /api/status; nil: conversations only
	Shapes map[string]any                // a value of what Status, Dispatch and Settings answer, by its name in the description

	// Insights counts a window of everything that is kept; nil: it is off. The answer is sent as it is.
	Insights func(ctx context.Context, since, until time.Time) (any, error)

	Receipt func() gateway.Receipt // how the last run ended; nil: it is not known

	Lanes []string // names that a card may be given to

	// Diagnose finds what a person should know of a board, its lanes included; nil: what the board itself knows.
	Diagnose func(context.Context, *kanban.Board) ([]kanban.Diagnostic, error)

	// MCP answers /mcp; nil: it is off. RunToken reads the token of a worker's run, which is good for that route alone.
	MCP      http.Handler
	RunToken func(token string) (kanban.Fence, error)

	Page http.Handler // answers every path that is none of the API's, behind the same guard; nil: there is no page

	Keys           *keys.Store    // who may come in; nil: Key alone, for everything
	Key            string         // of a handler without a home
	Addr           string         // HOST:PORT that is bound; decides which Host headers are ours
	AllowedHosts   []string       // further host names
	AllowedOrigins []string       // browser origins like https://chat.example
	MaxBody        int64          // bytes
	Outside        netguard.Guard // what images may be fetched from
	MaxTurns       int            // turns that may be asked for over this API at once; 0 is no limit

	MaxStreams, MaxStreamsPerKey int // event streams that may be open at once, in all and under one key; 0: the default

	ShowReasoning bool   // stream the model's reasoning as reasoning_content
	SystemPrompt  string // what a client's system message is added to; empty: gateway.DefaultSystemPrompt

	KeepAlive, OpenAfter, Patience, BodyTime time.Duration

	Stopping <-chan struct{} // closed when streams that wait for something are to end; nil: never

	PID     int
	Version string
	Started time.Time
	Metrics *prometheus.Registry // nil: /metrics answers that it is off
	Log     *slog.Logger         // nil: discarded
}

type server struct {
	Options
	origins *originGate
	places  places
	turns   chan struct{} // a place for each turn; nil without a limit
	metrics *metrics
	flights flights

	boardWatch boardWatch
	reads      recall
	answering  liveSet // responses that are being made
}

// New builds the handler. It starts nothing and keeps no state but what is under way.
func New(opts Options) http.Handler { return newServer(opts).router() }

func newServer(opts Options) *server {
	s := &server{Options: opts.withDefaults()}
	s.origins = newOriginGate(s.Addr, s.AllowedHosts, s.AllowedOrigins)
	s.metrics = newMetrics(s.Metrics)
	s.places.most, s.places.mostOfKey = s.MaxStreams, s.MaxStreamsPerKey
	if s.MaxTurns > 0 {
		s.turns = make(chan struct{}, s.MaxTurns)
	}
	return s
}

func (s *server) router() chi.Router {
	r := chi.NewRouter()
	r.Use(s.observe, s.guard, s.boundHeader, s.boundBody, secureHeaders, s.origins.check)
	r.NotFound(s.page())
	r.MethodNotAllowed(s.notAllowed(r))
	for _, path := range []string{"/health", "/v1/health"} {
		r.Get(path, s.health)
		r.Head(path, s.health)
	}
	s.doorRoutes(r)
	r.Get("/openapi.json", s.describe())
	r.Group(func(r chi.Router) {
		r.Use(s.authenticate)
		s.keyRoutes(r) // not once: the text of a key is written down nowhere
		r.Group(func(r chi.Router) {
			r.Use(s.once)
			s.routes(r)
		})
	})
	s.mcpRoutes(r)
	return r
}

// routes are those behind the key. Each says by the door it stands behind which scope a key must have.
func (s *server) routes(r chi.Router) {
	to := s.behind(r)
	to.read.Get("/health/detailed", s.handle(s.healthDetailed))
	to.read.Get("/metrics", s.exposition())
	to.read.Get("/v1/models", s.handle(s.models))
	to.read.Get("/v1/models/{model}", s.handle(s.model))
	to.chat.Post("/v1/chat/completions", s.chat)

	to.read.Get("/api/status", s.handle(s.status))
	to.read.Get("/api/receipt", s.handle(s.lastRun))
	to.read.Get("/api/insights", s.handle(s.insights))
	to.read.Get("/api/sessions", s.handle(s.listSessions))
	to.read.Get("/api/sessions/{session}", s.handle(s.showSession))
	to.read.Get("/api/sessions/{session}/messages", s.handle(s.listMessages))
	to.read.Get("/api/search", s.handle(s.search))

	if mutation.On("route-that-nobody-describes") {
		to.read.Get("/api/secret", s.handle(s.status))
	}

	s.talkRoutes(r)
	s.directoryRoutes(r)
	s.taskRoutes(r)
	s.verbRoutes(r)
	s.patchRoutes(r)
	s.linkRoutes(r)
	s.runRoutes(r)
	s.responseRoutes(r)
	s.agentRunRoutes(r)
	s.lifeRoutes(r)
	s.columnRoutes(r)
	s.seeRoutes(r)
	s.noticeRoutes(r)
	s.approvalRoutes(r)
	s.pauseRoutes(r)
	s.boardEventRoutes(r)
	s.dispatchRoutes(r)
	s.settingsRoutes(r)
	s.fileRoutes(r)
	s.boardRoutes(r)
}

func (o Options) withDefaults() Options {
	if o.MaxBody <= 0 {
		o.MaxBody = DefaultMaxBody
	}
	if o.MaxStreams <= 0 {
		o.MaxStreams = DefaultStreams
	}
	if o.MaxStreamsPerKey <= 0 {
		o.MaxStreamsPerKey = DefaultOfKey
	}
	if o.Keys == nil {
		o.Keys = keys.Fixed(o.Key)
	}
	if o.SystemPrompt == "" {
		o.SystemPrompt = gateway.DefaultSystemPrompt
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Started.IsZero() {
		o.Started = time.Now()
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{{&o.KeepAlive, DefaultKeepAlive}, {&o.OpenAfter, DefaultOpenAfter}, {&o.Patience, DefaultPatience}, {&o.BodyTime, DefaultBodyTime}} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	return o
}

// answer is what a plain route gives: a value for the body and its status.
type answer struct {
	status int
	body   any
}

func ok(body any) (answer, error) { return answer{http.StatusOK, body}, nil }

// handle turns a function of a request into a handler.
func (s *server) handle(f func(*http.Request) (answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, err := f(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		writeJSON(w, a.status, a.body)
	}
}

func (s *server) exposition() http.HandlerFunc {
	if s.Metrics == nil {
		return func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, errOff("metrics")) }
	}
	return promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP
}

// notAllowed answers 405 with the methods that the path has.
func (s *server) notAllowed(routes chi.Routes) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if routes.Match(chi.NewRouteContext(), method, r.URL.Path) {
				w.Header().Add("Allow", method)
			}
		}
		s.fail(w, r, errMethod(r))
	}
}
