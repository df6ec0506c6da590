package api

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
)

// A conversation that is deleted is gone with its runs and its commands; beside a turn that wants a second word.
func TestASessionIsDeletedWithWhatIsItsOwn(t *testing.T) {
	var forgotten []string
	h := newHouse(t, func(o *Options) {
		o.Forget = func(_ context.Context, session string) error { forgotten = append(forgotten, session); return nil }
	}, fakellm.Hang{})
	run, session := h.begin(t, `{"input":"x","session_id":"mine"}`)
	h.awaitStatus(t, run, "running")
	if status, got := h.post(t, http.MethodDelete, "/api/sessions/"+session, ""); status != http.StatusConflict || got["error"].(map[string]any)["code"] != "turn_running" {
		t.Errorf("beside a turn: %d %v", status, got)
	}
	if status, got := h.post(t, http.MethodDelete, "/api/sessions/"+session+"?force=true", ""); status != http.StatusOK || got["deleted"] != true {
		t.Fatalf("%d %v", status, got)
	}
	for _, path := range []string{"/api/sessions/mine", "/v1/runs/" + run} {
		if status, _ := h.post(t, http.MethodGet, path, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	if strings.Join(forgotten, " ") != "mine" {
		t.Errorf("forgotten: %v", forgotten)
	}
	if status, _ := h.post(t, http.MethodDelete, "/api/sessions/mine", ""); status != http.StatusNotFound {
		t.Errorf("again: %d", status)
	}
}

// awaitStatus follows a run until it has a status.
func (h *house) awaitStatus(t *testing.T, run, status string) {
	t.Helper()
	w := h.open(t, bounded(t), http.MethodGet, "/v1/runs/"+run+"/events", "")
	reader := bufio.NewReader(w.Body)
	for {
		_, more := nextHeard(t, reader)
		if _, got := h.post(t, http.MethodGet, "/v1/runs/"+run, ""); got["status"] == status {
			return
		} else if !more {
			t.Fatalf("it ended as %v", got)
		}
	}
}

// What a person says of a conversation holds: ended and open again, archived, pinned.
func TestASessionIsEndedAndOpenedAgain(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "one"})
	h.post(t, http.MethodPost, "/api/sessions", `{"id":"s"}`)
	for _, c := range []struct{ body, field, want string }{
		{`{"ended":true,"archived":true}`, "end_reason", "closed"}, {`{"ended":false,"pinned":true}`, "end_reason", "<nil>"},
	} {
		status, got := h.post(t, http.MethodPatch, "/api/sessions/s", c.body)
		if session := got["session"].(map[string]any); status != http.StatusOK || asText(session[c.field]) != c.want || session["archived"] != true {
			t.Errorf("%s: %d %v", c.body, status, got)
		}
	}
	if status, got := h.post(t, http.MethodPatch, "/api/sessions/s", `{}`); status != http.StatusBadRequest {
		t.Errorf("%d %v", status, got)
	}
}

func asText(value any) string {
	if text, is := value.(string); is {
		return text
	}
	return "<nil>"
}

// A fork begins with what was said, and then the two go their own ways. One turn over HTTP is one turn, whole or streamed.
func TestASessionIsForkedAndSpokenTo(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "one"}, fakellm.Text{Text: "two, word by word"})
	if status, got := h.post(t, http.MethodPost, "/api/sessions/nobody/chat", `{"input":"a"}`); status != http.StatusNotFound {
		t.Errorf("%d %v", status, got)
	}
	h.post(t, http.MethodPost, "/api/sessions", `{"id":"s"}`)
	if status, got := h.post(t, http.MethodPost, "/api/sessions/s/chat", `{"input":"a"}`); status != http.StatusOK || got["output"] != "one" {
		t.Fatalf("%d %v", status, got)
	}
	if status, got := h.post(t, http.MethodPost, "/api/sessions/s/fork", `{"id":"f","title":"aside"}`); status != http.StatusCreated || got["session"].(map[string]any)["parent"] != "s" {
		t.Fatalf("%d %v", status, got)
	}
	reader := bufio.NewReader(h.open(t, bounded(t), http.MethodPost, "/api/sessions/f/chat/stream", `{"input":"b"}`).Body)
	text, last := "", heard{}
	for {
		e, more := nextHeard(t, reader)
		if !more {
			break
		}
		if last = e; e.name == "assistant.delta" {
			text += e.data["delta"].(string)
		}
	}
	if status, got := h.post(t, http.MethodPost, "/api/sessions/s/chat", `{"input":null}`); status != http.StatusConflict || !strings.Contains(fmt.Sprint(got), "nothing to go on from") {
		t.Errorf("nothing said behind an answer: %d %v", status, got)
	}
	if text != "two, word by word" || last.name != "run.completed" || last.data["output"] != text {
		t.Errorf("%q, %v", text, last)
	}
	if s, f := h.rows(t, "s"), h.rows(t, "f"); s != "user:a|assistant:one|" || f != "user:a|assistant:one|user:b|assistant:two, word by word|" {
		t.Errorf("%s and %s", s, f)
	}
	if _, got := h.post(t, http.MethodGet, "/v1/capabilities", ""); got["features"].(map[string]any)["runs"] != true {
		t.Errorf("%v", got)
	}
}
