package e2e

import (
	"encoding/json"
	"net/http"
	"testing"
)

// What becomes of a conversation is the same at both doors: each verb of the command line leaves the row that the request beside it leaves.
func TestAConversationChangesAlikeAtBothDoors(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t, "model: {provider: offline}\n"))
	for _, id := range []string{"typed", "posted"} {
		d.call(http.MethodPost, "/api/sessions", map[string]string{"id": id}, nil)
		if err := d.say(id, "hello", nil); err != nil {
			t.Fatal(err)
		}
	}
	// state is the row without what differs: its name, its times, and what it was called.
	state := func(id string) string {
		t.Helper()
		var got struct{ Session map[string]any }
		d.call(http.MethodGet, "/api/sessions/"+id, nil, &got)
		for _, name := range []string{"id", "title", "parent", "opened_at", "last_active"} {
			delete(got.Session, name)
		}
		if got.Session["ended_at"] != nil {
			got.Session["ended_at"] = "then"
		}
		raw, err := json.Marshal(got.Session)
		noError(t, err)
		return string(raw)
	}
	listed := func(id string, query string) bool {
		t.Helper()
		var list struct{ Sessions []struct{ ID string } }
		d.call(http.MethodGet, "/api/sessions"+query, nil, &list)
		for _, s := range list.Sessions {
			if s.ID == id {
				return true
			}
		}
		return false
	}
	for _, c := range []struct {
		verb string
		body map[string]any
	}{
		{"end", map[string]any{"ended": true}},
		{"reopen", map[string]any{"ended": false}},
		{"pin", map[string]any{"pinned": true}},
		{"unpin", map[string]any{"pinned": false}},
		{"archive", map[string]any{"archived": true}},
		{"unarchive", map[string]any{"archived": false}},
	} {
		before := state("typed")
		d.verb("sessions", c.verb, "typed")
		d.call(http.MethodPatch, "/api/sessions/posted", c.body, nil)
		typed, posted := state("typed"), state("posted")
		if typed != posted || typed == before {
			t.Errorf("%s:\nbefore %s\ntyped  %s\nposted %s", c.verb, before, typed, posted)
		}
		for _, id := range []string{"typed", "posted"} {
			if listed(id, "") == (c.verb == "archive") || !listed(id, "?include_archived=true") {
				t.Errorf("after %s the list has %s: %v", c.verb, id, listed(id, ""))
			}
		}
	}
	d.verb("sessions", "fork", "typed", "--id", "typed-2", "--title", "one way")
	d.call(http.MethodPost, "/api/sessions/posted/fork", map[string]string{"id": "posted-2", "title": "another"}, nil)
	if typed, posted := state("typed-2"), state("posted-2"); typed != posted {
		t.Errorf("fork:\ntyped  %s\nposted %s", typed, posted)
	}
	if typed, posted := roles(d.rows("typed-2")), roles(d.rows("posted-2")); typed != posted || typed != "user assistant" {
		t.Errorf("fork: typed %s, posted %s", typed, posted)
	}
	d.stop()
}
