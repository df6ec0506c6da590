package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"gatewayd/kanban"
)

const eventsMost = 200 // in one frame, and in one page

func (s *server) boardEventRoutes(r chi.Router) {
	s.behind(r).read.With(s.bounded).Get("/api/boards/{board}/events", s.boardEvents)
}

// boardEvents answers GET …/events?since=&task=&assignee=&tenant=&kinds=: one page of a board's history, or, to those who accept
// text/event-stream, that history as it is written from now on. A frame's id is the cursor to come back with, in since or in
// Last-Event-ID; a client whose place in the history was cleared away meanwhile gets a "gap" and has to read the board anew.
func (s *server) boardEvents(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		s.handle(s.boardEventPage)(w, r)
		return
	}
	f, from, err := eventFilter(r)
	if err == nil {
		_, err = s.onBoard(r, func(_ kanban.Slug, board *kanban.Board) (_ answer, err error) {
			if from == nil {
				f.After, err = board.LatestEvent(r.Context())
			}
			return answer{}, err
		})
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	slug, err := s.slug(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	out := s.newSSE(w)
	out.comment("watching")
	if from != nil {
		s.bridge(r, out, &f)
	}
	s.followBoard(r, out, slug, f)
}

func (s *server) boardEventPage(r *http.Request) (answer, error) {
	f, _, err := eventFilter(r)
	if err != nil {
		return answer{}, err
	}
	return s.onBoard(r, func(_ kanban.Slug, board *kanban.Board) (answer, error) {
		list, cursor, err := board.EventsOf(r.Context(), f)
		if err != nil {
			return answer{}, err
		}
		return ok(map[string]any{"object": "list", "events": listOf(list), "cursor": cursor})
	})
}

// eventFilter reads what is asked for. from is nil where no place in the history was named.
func eventFilter(r *http.Request) (f kanban.EventFilter, from *int64, err error) {
	q := newQuery(r)
	f = kanban.EventFilter{Task: q.text("task"), Assignee: q.text("assignee"), Tenant: q.text("tenant"), Kinds: q.list("kinds"), Limit: eventsMost}
	since := r.URL.Query().Get("since")
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		since = last // a browser that comes back says both, and this one is later
	}
	if since != "" {
		if f.After, err = strconv.ParseInt(since, 10, 64); err != nil || f.After < 0 {
			return f, nil, errField("since", "must be the cursor of an event, not %.50q", since)
		}
		from = &f.After
	}
	return f, from, q.err
}

// bridge makes sure that nothing was cleared away behind the client's cursor: the event that it names is then still there.
func (s *server) bridge(r *http.Request, out *sse, f *kanban.EventFilter) {
	_, err := s.onBoard(r, func(_ kanban.Slug, board *kanban.Board) (answer, error) {
		head, err := board.LatestEvent(r.Context())
		if err != nil || f.After == head || f.After == 0 {
			return answer{}, err
		}
		at, err := board.Events(r.Context(), f.After-1, 1)
		if err == nil && (len(at) == 0 || at[0].ID != f.After) {
			f.After = head
			out.gap(head)
		}
		return answer{}, err
	})
	if err != nil {
		out.send("error", asRefusal(err).envelope())
	}
}

// gap says that something is missing before the cursor.
func (o *sse) gap(cursor int64) {
	o.sendAt(strconv.FormatInt(cursor, 10), "gap", map[string]any{"cursor": cursor, "reload": true})
}

// followBoard sends what happens until the client is gone, the daemon stops, or the board cannot be read.
func (s *server) followBoard(r *http.Request, out *sse, slug kanban.Slug, f kanban.EventFilter) {
	seen := s.boardWatch.join(slug, s.lookAt)
	defer s.boardWatch.leave(slug)
	alive := time.NewTicker(s.KeepAlive)
	defer alive.Stop()
	for out.err == nil {
		head, newest, changed, err := seen.state()
		if err == nil && head > f.After {
			if newest.isNextOf(f) {
				out.sendFrame(newest.frame)
				f.After = newest.to
				continue
			}
			if f.After, err = s.sendEvents(r, out, f); err == nil {
				continue
			}
		}
		if err != nil {
			out.send("error", asRefusal(err).envelope())
			return
		}
		if head < f.After { // a look of a moment ago; or another file lies there now, an older copy for one
			if now, err := s.headOf(r.Context(), slug); err == nil && now < f.After {
				f.After = now
				out.gap(now)
			}
		}
		select {
		case <-changed:
		case <-alive.C:
			out.comment("keep-alive")
		case <-s.Stopping:
			out.send("end", map[string]any{"reason": "gatewayd is stopping"})
			return
		case <-r.Context().Done():
			return
		}
	}
}

func eventPage(list []kanban.Event, cursor int64) map[string]any {
	return map[string]any{"events": listOf(list), "cursor": cursor}
}

// sendEvents sends the next page and gives the cursor behind it.
func (s *server) sendEvents(r *http.Request, out *sse, f kanban.EventFilter) (cursor int64, err error) {
	_, err = s.onBoard(r, func(_ kanban.Slug, board *kanban.Board) (answer, error) {
		var list []kanban.Event
		list, cursor, err = board.EventsOf(r.Context(), f)
		if err == nil && len(list) > 0 {
			out.sendAt(strconv.FormatInt(cursor, 10), "events", eventPage(list, cursor))
		}
		return answer{}, err
	})
	return cursor, err
}
