package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"gatewayd/gateway/route"
	"gatewayd/sessiondb"
)

// createSession answers POST /api/sessions: 201 with a new session, or, for a key that leads to one, 200 with that.
func (s *server) createSession(r *http.Request) (answer, error) {
	o, err := s.optionalBody(r)
	if err != nil {
		return answer{}, err
	}
	var id, key, title, source, system string
	if err := o.read(into("id", &id), into("key", &key), into("title", &title), into("system", &system), sourceInto(&source)); err != nil {
		return answer{}, err
	}
	if id != "" && !usableSession(id) {
		return answer{}, errField("id", "must be 1 to %d letters, digits and . _ : @ -", maxSessionID)
	}
	n := sessiondb.NewSession{ID: id, Key: key, Source: source, Title: title, TitleAlone: true, Prompt: s.layered(system)}
	if s.Model != nil {
		n.Model = s.Model().Name
	}
	session, made, err := s.make(r.Context(), n)
	if err != nil {
		return answer{}, err
	}
	status := http.StatusOK
	if made {
		status = http.StatusCreated
	}
	return answer{status, map[string]any{"session": session}}, nil
}

// make gives the session that is asked for, and makes it when there is none.
func (s *server) make(ctx context.Context, n sessiondb.NewSession) (sessiondb.Session, bool, error) {
	if n.Key != "" {
		return route.Resolver{Store: s.Sessions}.Conversation(ctx, n)
	}
	if n.ID != "" {
		if session, err := s.Sessions.Session(ctx, n.ID); err == nil || !errors.Is(err, sessiondb.ErrSessionMissing) {
			return session, false, err
		}
	}
	session, err := s.Sessions.CreateSession(ctx, n)
	return session, true, err
}

// layered is the system prompt of a session that a client gives one: a layer on ours, which says what the tools are and how to use
// them.
func (s *server) layered(system string) string {
	if system = strings.TrimSpace(system); system == "" {
		return s.SystemPrompt
	}
	return s.SystemPrompt + "\n\n" + system
}
