package api

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
)

// happening is one event of a board's stream.
type happening struct {
	id, name string
	data     map[string]any
}

// watching opens a stream and gives its frames.
func watching(t *testing.T, ctx context.Context, url string, header map[string]string) func() (happening, bool) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testKey)
	req.Header.Set("Accept", "text/event-stream")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	lines := bufio.NewReader(resp.Body)
	if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, ": watching") {
		t.Fatal(line, err)
	}
	return func() (f happening, ok bool) {
		for {
			line, err := lines.ReadString('\n')
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			switch {
			case err != nil:
				return f, false
			case name == "id":
				f.id = value
			case name == "event":
				f.name = value
			case name == "data":
				if err := json.Unmarshal([]byte(value), &f.data); err != nil {
					t.Error(err)
				}
				return f, true
			}
		}
	}
}

func kinds(f happening) (list []string) {
	events, _ := f.data["events"].([]any)
	for _, e := range events {
		list = append(list, e.(map[string]any)["kind"].(string))
	}
	return list
}

func TestABoardIsWatchedWithoutMissingAnything(t *testing.T) {
	boards, stopping := newShelf(t), make(chan struct{})
	if _, err := boards.Create(t.Context(), "plans", kanban.Meta{}); err != nil {
		t.Fatal(err)
	}
	b, err := boards.open(t.Context(), "plans", false)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	card, err := b.Create(t.Context(), kanban.NewTask{Title: "seen before"})
	if err != nil {
		t.Fatal(err)
	}
	h, _ := plain(func(o *Options) { o.Boards, o.Dispatch, o.Stopping = boards, &bell{}, stopping })
	server := httptest.NewServer(h)
	defer server.Close()
	ctx, url := bounded(t), server.URL+"/api/boards/plans/events"
	next := watching(t, ctx, url, nil)
	if _, err := b.Comment(ctx, card.ID, "me", "a remark"); err != nil {
		t.Fatal(err)
	}
	first, ok := next()
	if got := kinds(first); !ok || first.name != "events" || len(got) != 1 || got[0] != "commented" {
		t.Fatalf("%+v", first)
	}
	for range eventsMost + 5 { // while nobody watches
		if _, err := b.Comment(ctx, card.ID, "me", "more"); err != nil {
			t.Fatal(err)
		}
	}
	back := watching(t, ctx, url+"?since=0", map[string]string{"Last-Event-ID": first.id})
	got := 0
	for got < eventsMost+5 {
		f, ok := back()
		if !ok || f.name != "events" || len(kinds(f)) > eventsMost {
			t.Fatalf("after %d: %+v", got, f)
		}
		got += len(kinds(f))
	}
	err = b.File().Write(ctx, sqlite.Op{Label: "clear away", Do: func(tx *sqlite.Tx) error {
		_, err := tx.Exec("DELETE FROM task_events WHERE id <= ?", first.id)
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	if f, ok := watching(t, ctx, url+"?since="+first.id, nil)(); !ok || f.name != "gap" || f.data["reload"] != true {
		t.Errorf("behind what was cleared away: %+v", f)
	}
	close(stopping)
	for {
		f, ok := next()
		if !ok || f.name == "end" {
			if f.data["reason"] == nil {
				t.Errorf("the end says nothing: %+v", f)
			}
			break
		}
	}
}

func TestAPageOfABoardsHistory(t *testing.T) {
	boards := newShelf(t)
	if _, err := boards.Create(t.Context(), "plans", kanban.Meta{}); err != nil {
		t.Fatal(err)
	}
	h, _ := plain(func(o *Options) { o.Boards, o.Dispatch = boards, &bell{} })
	page := func(query string) (int, map[string]any) {
		w := ask(h, http.MethodGet, "/api/boards/plans/events"+query, "")
		return w.Code, decoded(t, w)
	}
	if code, body := page(""); code != http.StatusOK || body["cursor"] != 0.0 || len(body["events"].([]any)) != 0 {
		t.Errorf("%d %v", code, body)
	}
	if code, body := page("?since=yesterday"); code != http.StatusBadRequest || body["error"].(map[string]any)["param"] != "since" {
		t.Errorf("%d %v", code, body)
	}
}
