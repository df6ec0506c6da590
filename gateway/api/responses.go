package api

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"gatewayd/gateway"
	"gatewayd/gateway/runs"
	"gatewayd/sessiondb"
)

// textPace is how far apart pieces of text are sent. What comes meanwhile waits in the conversation's sink, where it is joined.
const textPace = 50 * time.Millisecond

// headerResponse names the response also where the answer is an error.
const headerResponse = "X-Gatewayd-Response-Id"

func (s *server) responseRoutes(r chi.Router) {
	to := s.behind(r)
	to.chat.Post("/v1/responses", s.createResponse)
	to.read.Get("/v1/responses/{response}", s.handle(s.onResponses(s.showResponse)))
	to.chat.Delete("/v1/responses/{response}", s.handle(s.onResponses(s.deleteResponse)))
	to.read.Get("/v1/responses/{response}/input_items", s.handle(s.onResponses(s.listInputItems)))
	to.chat.Post("/v1/responses/{response}/cancel", s.handle(s.onResponses(s.cancelResponse)))
}

func (s *server) onResponses(f func(*http.Request) (answer, error)) func(*http.Request) (answer, error) {
	return func(r *http.Request) (answer, error) {
		if s.Responses == nil {
			return answer{}, errOff("the Responses API")
		}
		return f(r)
	}
}

// liveSet are the responses that this process is making.
type liveSet struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (l *liveSet) put(id string) (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ids == nil {
		l.ids = map[string]bool{}
	}
	l.ids[id] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.ids, id)
	}
}

func (l *liveSet) has(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids[id]
}

// createResponse answers POST /v1/responses. The turn ends with the client, unless it is asked for in the background: then it is a run.
func (s *server) createResponse(w http.ResponseWriter, r *http.Request) {
	if s.Responses == nil {
		s.fail(w, r, errOff("the Responses API"))
		return
	}
	body, err := s.readBody(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	want, err := parseResponseAsk(body)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if begunBefore(r.Context()) && s.recallResponse(w, r, want) {
		return
	}
	if err := s.fetch(r.Context(), want.Images); err != nil {
		s.fail(w, r, err)
		return
	}
	if want.Background {
		s.handle(func(r *http.Request) (answer, error) { return s.backgroundResponse(r, want) })(w, r)
		return
	}
	if !s.enter() {
		s.fail(w, r, errTurns(s.MaxTurns))
		return
	}
	defer s.leave()
	at, err := s.seat(r, want)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer s.answering.put(at.ID)()
	nameSession(w.Header(), at.Session)
	w.Header().Set(headerResponse, at.ID)
	say := gateway.Say{Session: at.Session, Source: gateway.SourceAPI, Text: want.Text, Images: want.Images, Wishes: want.Wishes, UID: at.UID}
	if want.Stream {
		s.streamResponse(w, r, at, say)
		return
	}
	s.wholeResponse(w, r, at, say)
}

func (s *server) wholeResponse(w http.ResponseWriter, r *http.Request, at seat, say gateway.Say) {
	out := &items{id: at.ID[len("resp_"):]}
	result, err := s.Chat.Say(r.Context(), say, out.event)
	if err != nil {
		s.unmake(r.Context(), at)
		s.fail(w, r, err)
		return
	}
	end, verdict := at.ending(result, out)
	s.keep(r.Context(), &at, out, end)
	h := w.Header()
	if text := receiptOf(result); text != "" {
		h.Set(headerReceipt, text)
	}
	h.Set(headerTurn, result.TurnID)
	if verdict.refused != nil {
		s.fail(w, r, verdict.refused)
		return
	}
	now := time.Now()
	at.EndedAt = &now
	writeJSON(w, http.StatusOK, responseBody(at.Response))
}

// backgroundResponse begins a run that makes the response.
func (s *server) backgroundResponse(r *http.Request, want responseAsk) (answer, error) {
	if s.Runs == nil {
		return answer{}, errOff("running in the background")
	}
	at, err := s.seat(r, want)
	if err != nil {
		return answer{}, err
	}
	run, err := s.Runs.Start(r.Context(), runs.Ask{
		Owner: at.Owner, Model: want.Model, Response: at.ID, Say: gateway.Say{Session: at.Session, Source: gateway.SourceAPI, Text: want.Text, Images: want.Images, Wishes: want.Wishes, UID: at.UID},
	})
	if err != nil {
		s.unmake(r.Context(), at)
		return answer{}, err
	}
	body := responseBody(at.Response)
	body["gatewayd"] = map[string]any{"session": at.Session, "run": run.ID}
	return ok(body)
}

// runOf is the run that makes a response, if there is one that is still kept.
func (s *server) runOf(ctx context.Context, r sessiondb.Response) (sessiondb.Run, bool, error) {
	if !r.Background || s.Runs == nil {
		return sessiondb.Run{}, false, nil
	}
	list, err := s.Runs.List(ctx, sessiondb.RunFilter{Owner: &r.Owner, Response: r.ID, Limit: 1})
	if err != nil || len(list) == 0 {
		return sessiondb.Run{}, false, err
	}
	return list[0], true, nil
}

// response is the one that a request names, as it is now.
func (s *server) response(r *http.Request) (sessiondb.Response, error) {
	one, err := s.Responses.Response(r.Context(), ownerOf(r), chi.URLParam(r, "response"))
	if err != nil {
		return one, err
	}
	return s.settled(r.Context(), one)
}

// showResponse answers GET /v1/responses/{id}.
func (s *server) showResponse(r *http.Request) (answer, error) {
	one, err := s.response(r)
	if err != nil {
		return answer{}, err
	}
	return ok(responseBody(one))
}

// deleteResponse answers DELETE /v1/responses/{id}: it can no longer be named. Its rows stay in the session.
func (s *server) deleteResponse(r *http.Request) (answer, error) {
	id := chi.URLParam(r, "response")
	if err := s.Responses.DeleteResponse(r.Context(), ownerOf(r), id); err != nil {
		return answer{}, err
	}
	return ok(map[string]any{"id": id, "object": "response", "deleted": true})
}

// listInputItems answers GET /v1/responses/{id}/input_items?order=&limit=&after=, the newest first as its clients know it.
func (s *server) listInputItems(r *http.Request) (answer, error) {
	q := newQuery(r)
	order, after, limit := q.text("order"), q.text("after"), int(q.number("limit", 1, 100))
	if order != "" && order != "asc" && order != "desc" {
		q.fail("order", "must be asc or desc, not %.50q", order)
	}
	if q.err != nil {
		return answer{}, q.err
	}
	one, err := s.Responses.Response(r.Context(), ownerOf(r), chi.URLParam(r, "response"))
	if err != nil {
		return answer{}, err
	}
	var list []map[string]any
	if err := json.Unmarshal(one.Input, &list); err != nil {
		return answer{}, err
	}
	if limit == 0 {
		limit = 20
	}
	return ok(pageOf(list, order == "asc", after, limit))
}

// pageOf is a page of items as OpenAI lists them.
func pageOf(list []map[string]any, rising bool, after string, limit int) map[string]any {
	var page []map[string]any
	begun := after == ""
	for i := range list {
		item := list[i]
		if !rising {
			item = list[len(list)-1-i]
		}
		if begun {
			page = append(page, item)
		}
		begun = begun || item["id"] == after
	}
	body := map[string]any{"object": "list", "has_more": len(page) > limit, "first_id": nil, "last_id": nil}
	page = page[:min(limit, len(page))]
	if n := len(page); n > 0 {
		body["first_id"], body["last_id"] = page[0]["id"], page[n-1]["id"]
	}
	body["data"] = listOf(page)
	return body
}

// cancelResponse answers POST /v1/responses/{id}/cancel, for one that is made in the background. One that has ended stays as it is.
func (s *server) cancelResponse(r *http.Request) (answer, error) {
	one, err := s.response(r)
	if err != nil {
		return answer{}, err
	}
	if !one.Background {
		return answer{}, &refusal{status: http.StatusBadRequest, code: "not_in_background", param: "response", message: "only a response that is made in the background can be cancelled; end the request of any other"}
	}
	run, known, err := s.runOf(r.Context(), one)
	if err != nil {
		return answer{}, err
	}
	if known && run.EndedAt == nil {
		if _, err := s.Runs.Stop(r.Context(), run.Owner, run.ID); err != nil {
			return answer{}, err
		}
	}
	return s.showResponse(r)
}
