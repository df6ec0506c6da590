package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"gatewayd/gateway"
	"gatewayd/gateway/keys"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// Responses is what was answered, by names that a client may come back with: sessiondb.Store.
type Responses interface {
	PutResponse(ctx context.Context, r sessiondb.Response) error
	ContinueResponse(ctx context.Context, r, before sessiondb.Response) (bool, error)
	EndResponse(ctx context.Context, r sessiondb.Response) error
	Response(ctx context.Context, owner, id string) (sessiondb.Response, error)
	ResponseOf(ctx context.Context, owner, uid string) (sessiondb.Response, bool, error)
	DeleteResponse(ctx context.Context, owner, id string) error
	TurnOf(ctx context.Context, uid string) ([]sessiondb.Message, error)
	Fork(ctx context.Context, from string, upTo int64, n sessiondb.NewSession) (sessiondb.Session, error)
	Found(ctx context.Context, n sessiondb.NewSession, rows []sessiondb.NewMessage) (sessiondb.Session, error)
	Prompt(ctx context.Context, hash string) (string, error)
	Delete(ctx context.Context, ids ...string) (sessiondb.Deleted, error)
}

// ownerOf is the key by which a request came: what it makes is that key's.
func ownerOf(r *http.Request) string {
	caller, _ := keys.Who(r.Context())
	return caller.Key.ID
}

// seat is where a response is made: its session, and its record, which is stored unless the client wants none.
type seat struct {
	sessiondb.Response
	stored bool
	made   bool // the session is there for this response alone
}

// seat finds the session of a response, or makes it, and stores that the response has begun. Of those that go on from one response the
// first goes on in its session; each other one gets a session of its own, which begins with what was said until then.
func (s *server) seat(r *http.Request, want responseAsk) (at seat, err error) {
	request, _ := json.Marshal(want.repeated()) // texts always marshal
	id := "resp_" + newID()
	want.name(id[len("resp_"):])
	input, err := json.Marshal(want.Items)
	if err != nil {
		return at, err
	}
	at.Response = sessiondb.Response{
		ID: id, Owner: ownerOf(r), Previous: want.Previous, Conversation: want.Conversation, UID: onceUID(r.Context()), Status: sessiondb.ResponseInProgress,
		Background: want.Background, Request: request, Input: input, CreatedAt: time.Now(),
	}
	if at.UID == "" {
		at.UID = id
	}
	if want.Background {
		at.Status = sessiondb.ResponseQueued
	}
	switch {
	case want.Previous != "":
		return at, s.after(r.Context(), want, &at)
	case want.Conversation != "":
		sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(at.Owner), at.Owner, want.Conversation))
		n := s.newSession("conv-"+hex.EncodeToString(sum[:12]), want)
		n.Hidden = false
		_, err = s.Sessions.CreateSession(r.Context(), n)
		at.Session = n.ID
	default:
		at.made = true
		at.Session, err = s.ownSession(r, want, id)
	}
	if err == nil && want.Store {
		at.stored, err = true, s.Responses.PutResponse(r.Context(), at.Response)
	}
	if err != nil && at.made {
		s.unmake(r.Context(), at)
	}
	return at, err
}

// ownSession is a new one that begins with the history which the client tells, or the one that the request's header names.
func (s *server) ownSession(r *http.Request, want responseAsk, id string) (string, error) {
	n := s.newSession("resp-"+id[len("resp_"):], want)
	n.Unbegun = true
	session, err := s.Responses.Found(r.Context(), n, gateway.HistoryRows(want.History))
	return session.ID, err
}

func (s *server) newSession(id string, want responseAsk) sessiondb.NewSession {
	n := sessiondb.NewSession{ID: id, Source: gateway.SourceAPI, Prompt: s.layered(want.System), Hidden: !want.Store}
	if s.Model != nil {
		n.Model = s.Model().Name
	}
	return n
}

// after gives a response its place behind another one.
func (s *server) after(ctx context.Context, want responseAsk, at *seat) error {
	before, err := s.Responses.Response(ctx, at.Owner, want.Previous)
	if err == nil {
		before, err = s.settled(ctx, before)
	}
	if err != nil {
		return err
	}
	if before.EndedAt == nil || before.Row == 0 {
		return &refusal{status: http.StatusConflict, code: "response_not_ended", param: "previous_response_id", message: fmt.Sprintf("response %s is %s: nothing can go on from it", before.ID, before.Status)}
	}
	same, err := s.sameInstructions(ctx, want, before.Session)
	if err != nil {
		return err
	}
	if want.Store && same {
		at.Session = before.Session
		if at.stored, err = s.Responses.ContinueResponse(ctx, at.Response, before); err != nil || at.stored {
			return err
		}
	}
	n := sessiondb.NewSession{ID: "resp-" + at.ID[len("resp_"):], Source: gateway.SourceAPI, Hidden: !want.Store, Unbegun: true}
	if !same {
		n.Prompt = s.layered(want.System)
	}
	session, err := s.Responses.Fork(ctx, before.Session, before.Row, n)
	if err != nil {
		return err
	}
	if at.Session, at.made = session.ID, true; want.Store {
		at.stored, err = true, s.Responses.PutResponse(ctx, at.Response)
	}
	if err != nil {
		s.unmake(ctx, *at)
	}
	return err
}

// sameInstructions reports that a request asks for no other system prompt than its session has.
func (s *server) sameInstructions(ctx context.Context, want responseAsk, session string) (bool, error) {
	if want.System == "" {
		return true, nil
	}
	there, err := s.Sessions.Session(ctx, session)
	if err != nil {
		return false, err
	}
	prompt, err := s.Responses.Prompt(ctx, there.PromptHash)
	return prompt == s.layered(want.System), err
}

// unmake takes a response back whose message was not stored, and the session that was made for it: no half of it remains.
func (s *server) unmake(ctx context.Context, at seat) {
	ctx = context.WithoutCancel(ctx)
	if at.stored {
		if err := s.Responses.DeleteResponse(ctx, at.Owner, at.ID); err != nil && !problem.Is(err, problem.NotFound) {
			s.Log.Warn("a response that was refused is left", "session", at.Session, "error", err)
		}
	}
	if at.made && at.Session != "" {
		if _, err := s.Responses.Delete(ctx, at.Session); err != nil && !problem.Is(err, problem.NotFound) {
			s.Log.Warn("the session of a response that was refused is left", "session", at.Session, "error", err)
		}
	}
}
