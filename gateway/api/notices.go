package api

import (
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"gatewayd/kanban"
)

// noticeRoutes are who is told of a board's events, and how that stands.
func (s *server) noticeRoutes(r chi.Router) {
	to := s.behind(r)
	const list = "/api/boards/{board}/subscriptions"
	to.read.Get(list, s.handle(s.listSubscriptions))
	to.boards.Post(list, s.handle(s.subscribe))
	to.boards.Delete(list+"/{subscription}", s.handle(s.onSubscription(func(r *http.Request, board *kanban.Board, id int64) (any, error) {
		return map[string]any{"ok": true}, board.Unsubscribe(r.Context(), id)
	})))
	to.boards.Post(list+"/{subscription}/retry", s.handle(s.onSubscription(func(r *http.Request, board *kanban.Board, id int64) (any, error) {
		rows, err := board.Retry(r.Context(), id)
		return map[string]any{"ok": true, "retried": rows}, err
	})))
	to.boards.Post(list+"/{subscription}/test", s.handle(s.onSubscription(func(r *http.Request, board *kanban.Board, id int64) (any, error) {
		if s.Notices == nil {
			return nil, errOff("notifications")
		}
		return map[string]any{"ok": true}, s.Notices.Test(r.Context(), board, id)
	})))
	to.read.Get("/api/boards/{board}/outbox", s.handle(s.listOutbox))
}

func (s *server) listSubscriptions(r *http.Request) (answer, error) {
	task := newQuery(r).text("task")
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
		found, err := board.Subscriptions(r.Context(), task)
		if err != nil {
			return answer{}, err
		}
		return ok(map[string]any{"object": "list", "board": slug, "subscriptions": listOf(found)})
	})
}

// subscribe answers POST with 201. Without a task it is for the whole board.
func (s *server) subscribe(r *http.Request) (answer, error) {
	if s.Notices == nil {
		return answer{}, errOff("notifications")
	}
	o, err := s.jsonBody(r)
	if err != nil {
		return answer{}, err
	}
	in := kanban.NewSubscription{By: "api"}
	var target *string
	err = o.read(into("task", &in.Task), into("kinds", &in.Kinds), wanted("target", &target), into("address", &in.Address), into("created_by", &in.By))
	if err != nil {
		return answer{}, err
	}
	in.Target = *target
	if err := s.Notices.Check(r.Context(), in.Target, in.Address); err != nil {
		return answer{}, err
	}
	return s.onBoard(r, func(_ kanban.Slug, board *kanban.Board) (answer, error) {
		made, err := board.Subscribe(r.Context(), in)
		return answer{http.StatusCreated, map[string]any{"subscription": made}}, err
	})
}

// onSubscription runs f for the subscription that the path names.
func (s *server) onSubscription(f func(*http.Request, *kanban.Board, int64) (any, error)) func(*http.Request) (answer, error) {
	return func(r *http.Request) (answer, error) {
		text := chi.URLParam(r, "subscription")
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return answer{}, errField("subscription", "must be a number, not %.50q", text)
		}
		return s.onBoard(r, func(_ kanban.Slug, board *kanban.Board) (answer, error) {
			body, err := f(r, board, id)
			if err != nil {
				return answer{}, err
			}
			return ok(body)
		})
	}
}

// listOutbox answers GET /api/boards/{board}/outbox?subscription=&state=&limit=, the newest event first.
func (s *server) listOutbox(r *http.Request) (answer, error) {
	q := newQuery(r)
	filter := kanban.OutboxFilter{
		Subscription: q.number("subscription", 1, 1<<62), State: q.text("state"), Limit: int(q.number("limit", 1, 10_000)),
	}
	if q.err != nil {
		return answer{}, q.err
	}
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
		rows, err := board.Outbox(r.Context(), filter)
		if err != nil {
			return answer{}, err
		}
		return ok(map[string]any{"object": "list", "board": slug, "outbox": listOf(rows)})
	})
}
