package api

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"gatewayd/gateway/api/openapi"
	"gatewayd/internal/mutation"
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

// knownQuery refuses a parameter of our own routes that is not described: a misspelt filter would be dropped in silence, and the answer be
// taken for what was asked. In OpenAI's part it is nobody's business, because clients send many.
func (s *server) knownQuery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.queryTrouble(r); err != nil {
			s.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *server) queryTrouble(r *http.Request) error {
	route := chi.RouteContext(r.Context()).RoutePattern()
	if r.URL.RawQuery == "" || !strings.HasPrefix(route, "/api/") {
		return nil
	}
	described, err := describedQueries()
	if err != nil {
		return err
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	known, ok := described[method+" "+route]
	if !ok {
		return nil
	}
	for name := range r.URL.Query() {
		if !slices.Contains(known, name) && !mutation.On("parameters-are-passed-over") {
			e := errField(name, "is not a parameter of this request; it knows %s", cmp.Or(strings.Join(known, ", "), "none"))
			e.code = "unknown_parameter"
			return e
		}
	}
	return nil
}

var describedQueries = sync.OnceValues(openapi.QueryParameters)
