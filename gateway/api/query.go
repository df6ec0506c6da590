package api

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// query reads parameters of a URL one by one and keeps the first that is wrong.
type query struct {
	values url.Values
	err    error
}

func newQuery(r *http.Request) *query { return &query{values: r.URL.Query()} }

func (q *query) fail(name, format string, args ...any) {
	if q.err == nil {
		q.err = errField(name, format, args...)
	}
}

func (q *query) text(name string) string { return q.values.Get(name) }

// list splits at commas; a parameter may also be repeated.
func (q *query) list(name string) []string {
	var list []string
	for _, value := range q.values[name] {
		for part := range strings.SplitSeq(value, ",") {
			if part = strings.TrimSpace(part); part != "" {
				list = append(list, part)
			}
		}
	}
	return list
}

func (q *query) number(name string, least, most int64) int64 {
	text := q.values.Get(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		q.fail(name, "must be a whole number from %d to %d, not %.50q", least, most, text)
		return 0
	}
	return n
}

func (q *query) flag(name string) bool {
	switch text := q.values.Get(name); text {
	case "", "0", "false":
	case "1", "true":
		return true
	default:
		q.fail(name, "must be true or false, not %.50q", text)
	}
	return false
}

// cursor reads a place in a list that an earlier page gave out as its next.
func (q *query) cursor(name string) (time.Time, string) {
	text := q.values.Get(name)
	if text == "" {
		return time.Time{}, ""
	}
	micros, id, found := strings.Cut(text, "~")
	n, err := strconv.ParseInt(micros, 10, 64)
	if !found || err != nil || id == "" {
		q.fail(name, "is not a cursor that this daemon gave out")
		return time.Time{}, ""
	}
	return time.UnixMicro(n), id
}

func cursorAt(at time.Time, id string) string {
	return strconv.FormatInt(at.UnixMicro(), 10) + "~" + id
}
