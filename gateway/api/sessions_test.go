package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"gatewayd/internal/fakellm"
)

// get reads a JSON answer of a live house.
func (h *house) get(t *testing.T, path string) (map[string]any, *httptest.ResponseRecorder) {
	t.Helper()
	w := ask(h.Config.Handler, "GET", path, "")
	return decoded(t, w), w
}

func TestSessionsAreListedShownAndSearched(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "an answer"}, fakellm.Text{Text: "the zebra crossed"}, fakellm.Text{Text: "third"})
	for _, id := range []string{"first", "second", "third"} {
		h.send(t, bounded(t), hello, header(headerSession, id))
	}
	list, _ := h.get(t, "/api/sessions?limit=2&source=api")
	page := list["sessions"].([]any)
	next, _ := list["next"].(string)
	if len(page) != 2 || page[0].(map[string]any)["id"] != "third" || next == "" {
		t.Fatalf("first page: %v", list)
	}
	rest, _ := h.get(t, "/api/sessions?limit=2&cursor="+url.QueryEscape(next))
	if page := rest["sessions"].([]any); len(page) != 1 || page[0].(map[string]any)["id"] != "first" || rest["next"] != nil {
		t.Errorf("second page: %v", rest)
	}
	if none, _ := h.get(t, "/api/sessions?source=cli"); len(none["sessions"].([]any)) != 0 {
		t.Errorf("another source: %v", none)
	}
	shown, _ := h.get(t, "/api/sessions/second")
	if session := shown["session"].(map[string]any); session["id"] != "second" || session["message_count"] != 2.0 || session["source"] != "api" {
		t.Errorf("session: %v", shown)
	}
	messages, _ := h.get(t, "/api/sessions/second/messages?latest=1&limit=1")
	if rows := messages["messages"].([]any); len(rows) != 1 || rows[0].(map[string]any)["content"] != "the zebra crossed" {
		t.Errorf("messages: %v", messages)
	}
	last := messages["messages"].([]any)[0].(map[string]any)["origin_id"].(float64)
	earlier, _ := h.get(t, fmt.Sprintf("/api/sessions/second/messages?include_compacted=1&before=%d&limit=1", int64(last)))
	if rows := earlier["messages"].([]any); len(rows) != 1 || rows[0].(map[string]any)["role"] != "user" {
		t.Errorf("the page before: %v", earlier)
	}
	hits, _ := h.get(t, "/api/search?q=zebra")
	if found := hits["hits"].([]any); len(found) != 1 || found[0].(map[string]any)["session_id"] != "second" {
		t.Errorf("hits: %v", hits)
	}
}

func TestWhatReadingRefuses(t *testing.T) {
	h := newHouse(t, nil)
	for path, want := range map[string]struct {
		status int
		param  any
	}{
		"/api/sessions/none":                                     {404, nil},
		"/api/sessions/none/messages":                            {404, nil},
		"/api/sessions?limit=0":                                  {400, "limit"},
		"/api/sessions?limit=99999":                              {400, "limit"},
		"/api/sessions?limit=1e3":                                {400, "limit"},
		"/api/sessions?cursor=x":                                 {400, "cursor"},
		"/api/sessions?open=maybe":                               {400, "open"},
		"/api/sessions/none/messages?after=-1":                   {400, "after"},
		"/api/sessions/none/messages?after=99999999999999999999": {400, "after"},
		"/api/search":                                            {400, "q"},
		"/api/search?q=x&sort=random":                            {400, "sort"},
		"/api/search?q=x&limit=201":                              {400, "limit"},
	} {
		body, w := h.get(t, path)
		inner, _ := body["error"].(map[string]any)
		if w.Code != want.status || inner["param"] != want.param || inner["message"] == "" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if _, w := h.get(t, "/api/search?q="+url.QueryEscape(`"unclosed AND (`)); w.Code != http.StatusOK {
		t.Errorf("no text of a query is an error: %d %s", w.Code, w.Body)
	}
}
