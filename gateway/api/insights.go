package api

import (
	"net/http"
	"time"

	"gatewayd/sessiondb"
)

// insights answers GET /api/insights?days=|since=&until=: what happened in a window. Its days are those of UTC.
func (s *server) insights(r *http.Request) (answer, error) {
	q := newQuery(r)
	days, since, until := q.number("days", 1, sessiondb.MaxDays), q.moment("since"), q.moment("until")
	if days != 0 && !since.IsZero() {
		q.fail("days", "cannot be given together with since")
	}
	since, until = sessiondb.WindowOf(int(days), since, until, time.Now().UTC())
	if !until.After(since) {
		q.fail("until", "must be later than since")
	}
	if q.err != nil {
		return answer{}, q.err
	}
	if s.Insights == nil {
		return answer{}, errOff("insights")
	}
	found, err := s.Insights(r.Context(), since, until)
	if err != nil {
		return answer{}, err
	}
	return ok(found)
}

// moment reads a time in RFC 3339.
func (q *query) moment(name string) time.Time {
	text := q.text(name)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		q.fail(name, "must be a moment such as 2026-11-30T08:00:00Z, not %.50q", text)
	}
	return t
}
