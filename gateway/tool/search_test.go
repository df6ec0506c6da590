package tool

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"gatewayd/sessiondb"
)

type finder struct {
	asked sessiondb.Query
	hits  []sessiondb.Hit
	err   error
}

func (f *finder) Search(_ context.Context, q sessiondb.Query) ([]sessiondb.Hit, error) {
	f.asked = q
	return f.hits, f.err
}

func TestSessionSearchTellsWhereAndWhen(t *testing.T) {
	f := &finder{hits: []sessiondb.Hit{{
		SessionID: "s1", Title: "Plans", Role: "user", CreatedAt: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC), Snippet: "the >>>blue<<<\nboat",
	}}}
	search := func(a map[string]any) Result {
		return NewSet(SessionSearch{f}).Run(t.Context(), Call{Name: "session_search", Args: args(a), Policy: Policy{Context: "api"}})
	}
	r := search(map[string]any{"query": "blue", "session": "s1", "limit": 5_000})
	if r.Content != "2026-01-02 03:04, session s1 (Plans), user: the >>>blue<<< boat\n" || r.Err || f.asked.Session != "s1" || f.asked.Limit != 50 {
		t.Errorf("%+v, asked %+v", r, f.asked)
	}
	f.hits = nil
	if r := search(map[string]any{"query": "red"}); r.Content != "nothing was found" {
		t.Errorf("%+v", r)
	}
	f.err = errors.New("state.db is damaged")
	if r := search(map[string]any{"query": "red"}); !r.Err || !strings.Contains(r.Content, "damaged") {
		t.Errorf("%+v", r)
	}
	if r := search(map[string]any{"query": " "}); !r.Err {
		t.Errorf("%+v", r)
	}
}
