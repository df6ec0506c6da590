package web

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// reading is the rows of one conversation, each logical message once and in its place, what was folded away among them.
type reading struct {
	from    Sessions
	session string
}

func (p reading) some(ctx context.Context, f sessiondb.MessageFilter) ([]sessiondb.Message, error) {
	f.IncludeCompacted = true
	return p.from.Messages(ctx, p.session, f)
}

// page gives the rows that a request asks for, and how many it could have had: the newest, or with ?before=, ?at= or ?row= those
// before a row, around it, or it alone.
func (p reading) page(r *http.Request) (rows []sessiondb.Message, limit int, err error) {
	name, place, err := placeOf(r)
	limit = rowsOnPage
	switch {
	case err != nil:
	case name == "row":
		limit = 1
		rows, err = p.some(r.Context(), sessiondb.MessageFilter{After: place - 1, Limit: limit})
	case name == "at":
		rows, err = p.around(r.Context(), place)
	case name == "before":
		rows, err = p.some(r.Context(), sessiondb.MessageFilter{Before: place, Limit: limit})
	default:
		rows, err = p.some(r.Context(), sessiondb.MessageFilter{Latest: true, Limit: limit})
	}
	return rows, limit, err
}

// around gives a row with some before it, so that what it answers is in sight.
func (p reading) around(ctx context.Context, place int64) ([]sessiondb.Message, error) {
	before, err := p.some(ctx, sessiondb.MessageFilter{Before: place, Limit: rowsBefore})
	if err != nil {
		return nil, err
	}
	after, err := p.some(ctx, sessiondb.MessageFilter{After: place - 1, Limit: rowsOnPage - len(before)})
	return append(before, after...), err
}

// placeOf is the row that a request names, and what for.
func placeOf(r *http.Request) (name string, place int64, err error) {
	for _, name := range []string{"row", "at", "before"} {
		value := r.URL.Query().Get(name)
		if value == "" {
			continue
		}
		place, err := strconv.ParseInt(value, 10, 64)
		if err != nil || place < 1 || place == math.MaxInt64 {
			err = &problem.Error{Kind: problem.Invalid, Thing: name, What: fmt.Sprintf("must be the number of a row, not %.50q", value), Field: name}
		}
		return name, place, err
	}
	return "", 0, nil
}
