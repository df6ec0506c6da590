package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"gatewayd/gateway"
	"gatewayd/sessiondb"
)

// stopWait is how long a deletion waits for the turn that it ended.
const stopWait = 20 * time.Second

// lifeRoutes are what becomes of a conversation as a whole.
func (s *server) lifeRoutes(r chi.Router) {
	to := s.behind(r)
	to.chat.Delete("/api/sessions/{session}", s.handle(s.deleteSession))
	to.chat.Post("/api/sessions/{session}/fork", s.handle(s.forkSession))
	to.chat.Post("/api/sessions/{session}/chat", s.chatOnce)
	to.chat.Post("/api/sessions/{session}/chat/stream", s.chatStream)
	to.read.Get("/v1/capabilities", s.handle(s.capabilities))
}

// deleteSession answers DELETE /api/sessions/{session}?force=: the conversation goes with everything that is its own, its commands in
// the background too. Beside a turn it is refused with 409; with force the turn is ended, and what waits behind it is dropped.
func (s *server) deleteSession(r *http.Request) (answer, error) {
	id, err := sessionParam(r)
	if err != nil {
		return answer{}, err
	}
	q := newQuery(r)
	force := q.flag("force")
	if q.err != nil {
		return answer{}, q.err
	}
	if _, err := s.Sessions.Session(r.Context(), id); err != nil {
		return answer{}, err
	}
	if s.turnRuns(id) {
		if !force {
			e := errTurnRuns(id)
			e.message = "a turn runs in session " + id + "; nothing was deleted. Stop it, or say force=true"
			return answer{}, e
		}
		if err := s.endTurn(r.Context(), id); err != nil {
			return answer{}, err
		}
	}
	gone, err := s.Sessions.Delete(r.Context(), id)
	if err != nil {
		return answer{}, err
	}
	if s.Forget != nil {
		if err := s.Forget(r.Context(), id); err != nil {
			s.Log.Warn("what tools kept of a deleted session is left", "session", id, "error", err)
		}
	}
	return ok(map[string]any{"object": "session.deleted", "id": id, "deleted": true, "messages": gone.Messages})
}

func (s *server) turnRuns(session string) bool {
	for _, turn := range s.Chat.Status().Running {
		if turn.Session == session {
			return true
		}
	}
	return false
}

// endTurn ends the turn of a session and waits until it has.
func (s *server) endTurn(ctx context.Context, session string) error {
	ctx, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	watching, ended := context.WithCancel(ctx)
	defer ended()
	wait := s.Chat.Attach(session, func(e gateway.Event) {
		if e.Kind == gateway.EventEnded {
			ended()
		}
	})
	s.Chat.Forget(session, gateway.Stop)
	if !s.turnRuns(session) {
		ended()
	}
	_ = wait(watching) // a watcher that is too slow has missed the end, and the deletion says so
	for s.turnRuns(session) && ctx.Err() == nil {
		timer := time.NewTimer(10 * time.Millisecond) // its lease goes with its last breath
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

// forkSession answers POST …/fork {"title","id","up_to"}: 201 with a session that begins with what was said here, all of it or up to a row.
func (s *server) forkSession(r *http.Request) (answer, error) {
	from, err := sessionParam(r)
	if err != nil {
		return answer{}, err
	}
	o, err := s.optionalBody(r)
	if err != nil {
		return answer{}, err
	}
	var id, title string
	var upTo int64
	if err := o.read(into("id", &id), into("title", &title), into("up_to", &upTo)); err != nil {
		return answer{}, err
	}
	switch {
	case id != "" && !usableSession(id):
		return answer{}, errField("id", "must be 1 to %d letters, digits and . _ : @ -", maxSessionID)
	case upTo < 0:
		return answer{}, errField("up_to", "must be the id of a row, not %d", upTo)
	}
	session, err := s.Sessions.Fork(r.Context(), from, upTo, sessiondb.NewSession{ID: id, Title: strings.Join(strings.Fields(title), " ")})
	if err != nil {
		return answer{}, err
	}
	return answer{http.StatusCreated, map[string]any{"session": session}}, nil
}

// sessionChange is the body of PATCH /api/sessions/{session}.
type sessionChange struct {
	title            *string
	ended            *bool
	archived, pinned *bool
}

func (s *server) readSessionChange(r *http.Request) (c sessionChange, err error) {
	o, err := s.jsonBody(r)
	if err != nil {
		return c, err
	}
	if err := o.read(into("title", &c.title), into("ended", &c.ended), into("archived", &c.archived), into("pinned", &c.pinned)); err != nil {
		return c, err
	}
	if c == (sessionChange{}) {
		return c, errField("title", "is missing, and so are ended, archived and pinned; they are what can be changed")
	}
	return c, nil
}

// patchSession answers PATCH /api/sessions/{session}: its title, whether it has ended, is archived, is pinned.
func (s *server) patchSession(r *http.Request) (answer, error) {
	id, err := sessionParam(r)
	if err != nil {
		return answer{}, err
	}
	c, err := s.readSessionChange(r)
	if err != nil {
		return answer{}, err
	}
	if c.ended != nil && *c.ended && s.turnRuns(id) {
		e := errTurnRuns(id)
		e.message = "a turn runs in session " + id + "; nothing was changed. Stop it, or wait for its end"
		return answer{}, e
	}
	if err := s.changeSession(r.Context(), id, c); err != nil {
		return answer{}, err
	}
	return s.showSession(r)
}

func (s *server) changeSession(ctx context.Context, id string, c sessionChange) (err error) {
	if c.title != nil {
		err = s.Sessions.SetTitle(ctx, id, strings.Join(strings.Fields(*c.title), " "))
	}
	if err == nil && c.ended != nil {
		if *c.ended {
			_, err = s.Sessions.EndSession(ctx, id, sessiondb.EndClosed)
		} else {
			err = s.Sessions.Reopen(ctx, id)
		}
	}
	if err == nil && (c.archived != nil || c.pinned != nil) {
		err = s.Sessions.SetFlags(ctx, id, sessiondb.SessionFlags{Archived: c.archived, Pinned: c.pinned})
	}
	return err
}
