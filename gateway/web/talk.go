package web

import (
	"context"
	"math"
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"gatewayd/gateway"
	"gatewayd/gateway/slash"
	toolset "gatewayd/gateway/tool"
	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

// Sessions is what was said, and what waits to be said: sessiondb.Store.
type Sessions interface {
	Session(ctx context.Context, id string) (sessiondb.Session, error)
	Sessions(ctx context.Context, filter sessiondb.ListFilter) ([]sessiondb.Session, error)
	Messages(ctx context.Context, session string, filter sessiondb.MessageFilter) ([]sessiondb.Message, error)
	Search(ctx context.Context, query sessiondb.Query) ([]sessiondb.Hit, error)
	Settings(ctx context.Context, session string) (sessiondb.Settings, error)
	Inbox(ctx context.Context, session string) ([]sessiondb.Waiting, error)
}

// Approvals is what waits for a person: gateway.Approvals.
type Approvals interface {
	List(ctx context.Context, f sessiondb.ApprovalFilter) ([]gateway.Approval, error)
}

const (
	rowsOnPage = 60 // rows of a conversation: some screens of reading, and less than 100 ms to paint
	rowsBefore = 8  // rows before the one that a search found
	beside     = 30 // conversations in the list beside one
)

func (s *site) talkRoutes(r chi.Router) {
	r.Get("/chat", s.show(s.newChat))
	r.Get("/chat/{session}", s.show(s.chat))
	r.Get("/sessions", s.show(s.sessions))
	r.Get("/search", s.show(s.search))
	r.Get("/status", s.show(s.status))
}

// chatView is a conversation.
type chatView struct {
	Session  sessiondb.Session
	New      bool
	Whole    bool // the page shows one row whole
	Turns    []exchange
	Earlier  int64 // where the page before this one ends; 0: there is none
	Later    bool  // newer rows are on another page
	Running  *gateway.RunningTurn
	Waiting  []sessiondb.Waiting
	Asked    []gateway.Approval
	Recent   []recent
	Commands []slash.Command
	Busy     string // what a message means for a turn that runs
}

// recent is a conversation in a list.
type recent struct {
	sessiondb.Session
	Running, Here bool
}

// Name is what a person calls a conversation: its title, or how it begins.
func (r recent) Name() string { return titleOf(r.Session) }

func (v chatView) Name() string { return titleOf(v.Session) }

// Choices are how far a yes reaches, and no.
func (chatView) Choices() []toolset.Choice { return toolset.Choices }

func titleOf(c sessiondb.Session) string {
	switch {
	case c.Title != "":
		return c.Title
	case c.Preview != "":
		return c.Preview
	}
	return c.ID
}

// newChat is a conversation that does not exist yet: its first message makes it.
func (s *site) newChat(r *http.Request) (page, error) {
	p := page{View: "chat", Title: "New conversation", Mark: "chat", Script: "talk"}
	if s.Sessions == nil {
		return p, off("Chat")
	}
	v := chatView{New: true, Commands: slash.Commands()}
	list, err := s.recent(r.Context(), "")
	v.Recent, p.Data = list, &v
	return p, err
}

// chat is a conversation: its newest rows, or those before one (?before=), around one (?at=), or one whole (?row=).
func (s *site) chat(r *http.Request) (page, error) {
	p := page{Mark: "chat", Script: "talk"}
	if s.Sessions == nil {
		return p, off("Chat")
	}
	ctx, id := r.Context(), chi.URLParam(r, "session")
	session, err := s.Sessions.Session(ctx, id)
	if err != nil {
		return p, err
	}
	v := &chatView{Session: session, Commands: slash.Commands(), Running: s.running(id)}
	p.View, p.Title, p.Data = "chat", v.Name(), v
	return p, filled(r, map[string]func() error{
		"log":   func() error { return s.rows(r, v) },
		"ask":   func() (err error) { v.Asked, err = s.asked(ctx, id); return err },
		"wait":  func() (err error) { v.Waiting, err = s.Sessions.Inbox(ctx, id); return err },
		"aside": func() (err error) { v.Recent, err = s.recent(ctx, id); return err },
		"head":  func() error { return nil },
		"mode": func() error {
			settings, err := s.Sessions.Settings(ctx, id)
			v.Busy = settings.Busy
			return err
		},
	})
}

// filled reads what a page shows, or only what the part shows that is asked for.
func filled(r *http.Request, parts map[string]func() error) error {
	if name := r.Header.Get(fragmentHeader); name != "" {
		if read, there := parts[name]; there {
			return read()
		}
		return nil
	}
	for _, read := range parts {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

// rows reads the page of the conversation that is asked for.
func (s *site) rows(r *http.Request, v *chatView) error {
	read := reading{s.Sessions, v.Session.ID}
	rows, limit, err := read.page(r)
	if err != nil || len(rows) == 0 {
		return err
	}
	as := showing{most: maxShown}
	if v.Running != nil {
		as.running = v.Running.Turn
	}
	if v.Whole = limit == 1; v.Whole {
		as.most = math.MaxInt
	}
	v.Turns = exchanges(rows, as)
	if v.Whole {
		return nil
	}
	if len(rows) == limit && len(v.Turns) > 1 {
		v.Turns = v.Turns[1:] // the page may hold a part of it; the page before has it whole
	}
	first := v.Turns[0].First
	older, err := read.some(r.Context(), sessiondb.MessageFilter{Before: first, Limit: 1})
	if err != nil {
		return err
	}
	if len(older) > 0 {
		v.Earlier = first
	}
	if name, _, _ := placeOf(r); name == "" && !mutation.On("newest-page-has-a-newer") {
		return nil // what came since is told by the events, on this very page
	}
	newer, err := read.some(r.Context(), sessiondb.MessageFilter{After: rows[len(rows)-1].OriginID, Limit: 1})
	v.Later = len(newer) > 0
	return err
}

// running is the turn that runs in a session now.
func (s *site) running(session string) *gateway.RunningTurn {
	if s.Turns == nil {
		return nil
	}
	for _, turn := range s.Turns().Running {
		if turn.Session == session {
			return &turn
		}
	}
	return nil
}

// asked are the calls that wait for a person: of one conversation, or, without one, of all.
func (s *site) asked(ctx context.Context, session string) ([]gateway.Approval, error) {
	if s.Approvals == nil {
		return nil, nil
	}
	list, err := s.Approvals.List(ctx, sessiondb.ApprovalFilter{State: sessiondb.ApprovalPending, Session: session})
	slices.Reverse(list)
	return list, err
}

func (s *site) recent(ctx context.Context, here string) ([]recent, error) {
	list, err := s.Sessions.Sessions(ctx, sessiondb.ListFilter{Limit: beside})
	return s.marked(list, here), err
}

// marked says of each conversation whether a turn runs in it, and whether it is the one that is looked at.
func (s *site) marked(list []sessiondb.Session, here string) []recent {
	out := make([]recent, 0, len(list))
	for _, one := range list {
		out = append(out, recent{one, s.running(one.ID) != nil, one.ID == here})
	}
	return out
}
