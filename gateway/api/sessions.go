package api

import (
	"math"
	"net/http"

	"github.com/go-chi/chi/v5"

	"gatewayd/gateway/route"
	"gatewayd/sessiondb"
)

const (
	defaultPage = 50
	maxPage     = 500
)

// listSessions answers GET /api/sessions, the last active first. next is the cursor of the following page. With a key it is the
// one session that the key leads to, or none; looking makes none.
func (s *server) listSessions(r *http.Request) (answer, error) {
	q := newQuery(r)
	if key := q.text("key"); key != "" {
		session, there, err := route.Resolver{Store: s.Sessions}.Look(r.Context(), key)
		if err != nil || !there {
			return answer{http.StatusOK, map[string]any{"object": "list", "sessions": []any{}, "next": nil}}, err
		}
		return ok(map[string]any{"object": "list", "sessions": []any{session}, "next": nil})
	}
	filter := sessiondb.ListFilter{
		Sources: q.list("source"), Limit: int(q.number("limit", 1, maxPage)), IncludeHidden: q.flag("include_hidden"),
		IncludeArchived: q.flag("include_archived"), IncludeChildren: q.flag("include_children"), OpenOnly: q.flag("open"),
	}
	filter.BeforeActive, filter.BeforeID = q.cursor("cursor")
	if q.err != nil {
		return answer{}, q.err
	}
	if filter.Limit == 0 {
		filter.Limit = defaultPage
	}
	list, err := s.Sessions.Sessions(r.Context(), filter)
	if err != nil {
		return answer{}, err
	}
	body := map[string]any{"object": "list", "sessions": listOf(list), "next": nil}
	if len(list) == filter.Limit {
		last := list[len(list)-1]
		body["next"] = cursorAt(last.LastActive, last.ID)
	}
	return ok(body)
}

// showSession answers GET /api/sessions/{session}.
func (s *server) showSession(r *http.Request) (answer, error) {
	session, err := s.Sessions.Session(r.Context(), chi.URLParam(r, "session"))
	if err != nil {
		return answer{}, err
	}
	return ok(map[string]any{"session": session})
}

// listMessages answers GET /api/sessions/{session}/messages. An unknown session is told from an empty one.
func (s *server) listMessages(r *http.Request) (answer, error) {
	q := newQuery(r)
	filter := sessiondb.MessageFilter{
		After: q.number("after", 0, math.MaxInt64), Before: q.number("before", 0, math.MaxInt64), Limit: int(q.number("limit", 1, 1_000_000)), Latest: q.flag("latest"),
		IncludeCompacted: q.flag("include_compacted"), IncludeInactive: q.flag("include_inactive"),
	}
	if q.err != nil {
		return answer{}, q.err
	}
	id := chi.URLParam(r, "session")
	if _, err := s.Sessions.Session(r.Context(), id); err != nil {
		return answer{}, err
	}
	rows, err := s.Sessions.Messages(r.Context(), id, filter)
	if err != nil {
		return answer{}, err
	}
	return ok(map[string]any{"object": "list", "session": id, "messages": listOf(rows)})
}

// search answers GET /api/search?q=.
func (s *server) search(r *http.Request) (answer, error) {
	q := newQuery(r)
	ask := sessiondb.Query{
		Text: q.text("q"), Session: q.text("session"), Role: q.text("role"), Limit: int(q.number("limit", 1, 200)),
		Sort: sessiondb.Sort(q.text("sort")), IncludeHidden: q.flag("include_hidden"), Context: q.flag("context"),
	}
	if ask.Text == "" {
		q.fail("q", "is missing; it is what is searched for")
	}
	if q.err != nil {
		return answer{}, q.err
	}
	hits, err := s.Sessions.Search(r.Context(), ask)
	if err != nil {
		return answer{}, err
	}
	return ok(map[string]any{"object": "list", "hits": listOf(hits)})
}

// listOf is never null in JSON.
func listOf[T any](list []T) []T { return append([]T{}, list...) }
