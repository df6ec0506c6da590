package api

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gatewayd/gateway/keys"
	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

// begin starts a run and gives its id and its session.
func (h *house) begin(t *testing.T, body string) (run, session string) {
	t.Helper()
	status, got := h.post(t, http.MethodPost, "/v1/runs", body)
	if status != http.StatusAccepted || got["status"] != "queued" {
		t.Fatalf("%d %v", status, got)
	}
	return got["run_id"].(string), got["session_id"].(string)
}

func heardNames(list []heard) string {
	var out []string
	for _, e := range list {
		if n := len(out); n == 0 || out[n-1] != e.name {
			out = append(out, e.name)
		}
	}
	return strings.Join(out, " ")
}

// A run is watched from any place: each event has an id, and whoever names the last one gets those behind it.
func TestARunIsWatchedFromWhereOneWas(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "bit by bit by bit", ChunkChars: 4, Delay: 20 * time.Millisecond})
	run, session := h.begin(t, `{"input":"hello","conversation_history":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`)
	all := h.runEvents(t, run, "")
	if got := heardNames(all); got != "run.queued run.started model message.delta run.completed" {
		t.Errorf("events: %s", got)
	}
	if again := h.runEvents(t, run, "3"); fmt.Sprint(again) != fmt.Sprint(all[3:]) {
		t.Errorf("behind the third: %s", heardNames(again))
	}
	if again := h.runEvents(t, run, fmt.Sprint(len(all))); len(again) != 0 {
		t.Errorf("behind the last: %s", heardNames(again))
	}
	_, got := h.post(t, http.MethodGet, "/v1/runs/"+run, "")
	if got["status"] != "completed" || got["output"] != "bit by bit by bit" || got["receipt"] == nil || got["usage"] == nil {
		t.Errorf("%v", got)
	}
	if rows := h.rows(t, session); rows != "user:a|assistant:b|user:hello|assistant:bit by bit by bit|" {
		t.Errorf("rows: %s", rows)
	}
	if status, refusal := h.post(t, http.MethodGet, "/v1/runs/"+run+"/events?after=x", ""); status != http.StatusBadRequest {
		t.Errorf("%d %v", status, refusal)
	}
}

// What cannot be a run is refused, and leaves nothing.
func TestARunThatCannotBeLeavesNothing(t *testing.T) {
	h := newHouse(t, nil)
	for body, param := range map[string]string{
		`{}`:                                "input",
		`{"input":"x","session_id":"a b"}`:  "session_id",
		`{"input":"x","sesion_id":"a"}`:     "sesion_id",
		`{"input":"x","metadata":{"a":[]}}`: "metadata.a",
		`{"input":"x","session_id":"a","previous_response_id":"b"}`: "session_id",
	} {
		status, got := h.post(t, http.MethodPost, "/v1/runs", body)
		inner, _ := got["error"].(map[string]any)
		if status != http.StatusBadRequest || inner["param"] != param {
			t.Errorf("%s: %d %v", body, status, got)
		}
	}
	if status, _ := h.post(t, http.MethodGet, "/v1/runs/run_nobody", ""); status != http.StatusNotFound {
		t.Errorf("a run of nobody: %d", status)
	}
	if list, err := h.store.Sessions(t.Context(), sessiondb.ListFilter{IncludeHidden: true}); err != nil || len(list) != 0 {
		t.Errorf("%d sessions remain: %v", len(list), err)
	}
}

// Too many runs at once are refused with the time to come back; a stopped one makes room.
func TestRunsAreBounded(t *testing.T) {
	script := make([]fakellm.Response, 10)
	for i := range script {
		script[i] = fakellm.Hang{}
	}
	h := newHouse(t, nil, script...)
	var first string
	for i := range 10 {
		run, _ := h.begin(t, `{"input":"x"}`)
		if i == 0 {
			first = run
		}
	}
	w := h.open(t, bounded(t), http.MethodPost, "/v1/runs", `{"input":"x"}`)
	if w.StatusCode != http.StatusTooManyRequests || w.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v", w.StatusCode, w.Header)
	}
	list, err := h.store.Sessions(t.Context(), sessiondb.ListFilter{})
	if err != nil || len(list) != 10 {
		t.Errorf("%d sessions: %v", len(list), err)
	}
	if _, open := h.post(t, http.MethodGet, "/v1/runs?status=open", ""); len(open["data"].([]any)) != 10 {
		t.Errorf("%v", open)
	}
	if status, got := h.post(t, http.MethodPost, "/v1/runs/"+first+"/stop", ""); status != http.StatusOK {
		t.Errorf("%d %v", status, got)
	}
	if got := heardNames(h.runEvents(t, first, "")); !strings.HasSuffix(got, "run.cancelled") {
		t.Errorf("events: %s", got)
	}
}

// What one key began does not exist for another.
func TestRunsAndResponsesAreTheirKeys(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "one"}, fakellm.Text{Text: "two"})
	run, _ := h.begin(t, `{"input":"x"}`)
	h.runEvents(t, run, "")
	response := h.respond(t, `{"input":"y"}`)["id"].(string)
	handler := h.Config.Handler
	as := func(method, path, body string) int {
		r := newRequest(method, path, body)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r.WithContext(keys.With(r.Context(), keys.Caller{Key: keys.Key{ID: "other", Name: "other", Scopes: []keys.Scope{keys.Admin}}, Door: keys.DoorKey})))
		return w.Code
	}
	for _, path := range []string{"/v1/runs/" + run, "/v1/runs/" + run + "/events", "/v1/responses/" + response, "/v1/responses/" + response + "/input_items"} {
		if status := as(http.MethodGet, path, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status := as(http.MethodPost, "/v1/responses", fmt.Sprintf(`{"input":"z","previous_response_id":%q}`, response)); status != http.StatusNotFound {
		t.Errorf("it goes on from what is not its own: %d", status)
	}
	if status := as(http.MethodPost, "/v1/runs/"+run+"/stop", ""); status != http.StatusNotFound {
		t.Errorf("it stops what is not its own: %d", status)
	}
}

// A client that does not read is cut off, holds nobody, and comes back to where it was.
func TestASlowWatcherIsCutOffAndComesBack(t *testing.T) {
	gate := make(chan struct{})
	h := newHouse(t, func(o *Options) { o.Patience = time.Second }, fakellm.Text{Text: strings.Repeat("many words ", 40_000), ChunkChars: 8_000, Gate: gate})
	run, _ := h.begin(t, `{"input":"x"}`)
	w := h.open(t, bounded(t), http.MethodGet, "/v1/runs/"+run+"/events", "") // and is not read
	close(gate)
	all := h.runEvents(t, run, "")
	last := all[len(all)-1]
	if last.name != "run.completed" || len(last.data["output"].(string)) != 11*40_000 {
		t.Fatalf("the one who reads: %s", heardNames(all))
	}
	time.AfterFunc(20*time.Second, func() { _ = w.Body.Close() })
	reader := bufio.NewReader(w.Body)
	seen := 0
	for {
		e, more := nextHeard(t, reader)
		if !more {
			break
		}
		if fmt.Sprint(e) != fmt.Sprint(all[seen]) {
			t.Fatalf("event %d differs", seen)
		}
		seen++
	}
	if rest := h.runEvents(t, run, fmt.Sprint(seen)); seen+len(rest) != len(all) {
		t.Errorf("%d and then %d of %d", seen, len(rest), len(all))
	}
}
