package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// While a daemon waits for a turn to end it says so at each door: idle streams end at once with the reason, what would begin a turn is refused with a
// time to come back, what may wait is accepted, and what reads is answered.
func TestADaemonThatStopsSaysSoAtEachDoor(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t, "model: {provider: offline}\ntools: {terminal: allow}\nagent: {shutdown_grace: 10m}\n"))
	d.call(http.MethodPost, "/api/boards", map[string]string{"slug": "plans"}, nil)
	d.call(http.MethodPost, "/api/sessions", map[string]string{"id": "idle"}, nil)
	streams := map[string]*http.Response{}
	for _, path := range []string{"/api/sessions/idle/events", "/api/boards/plans/events"} {
		r := d.made("GET", path, d.key, "")
		r.Header.Set("Accept", "text/event-stream")
		answer, err := http.DefaultClient.Do(r)
		noError(t, err)
		defer answer.Body.Close()
		streams[path] = answer
	}
	_, ended := d.hang("busy")
	began := time.Now()
	noError(t, d.child.Signal(syscall.SIGTERM))
	for path, stream := range streams {
		raw, err := io.ReadAll(stream.Body)
		if text := string(raw); err != nil || !strings.Contains(text, "stopping") && !strings.Contains(text, "stops") {
			t.Errorf("%s ends without a reason: %v %q", path, err, text)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("idle streams ended after %v", took)
	}
	for path, body := range map[string]string{
		"/v1/chat/completions":    `{"model":"x","messages":[{"role":"user","content":"hello"}]}`,
		"/v1/responses":           `{"model":"x","input":"hello"}`,
		"/api/sessions/idle/chat": `{"input":"hello"}`,
	} {
		answer := d.keyed("POST", path, d.key, body)
		raw, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		var envelope struct {
			Error struct{ Code, Message string }
		}
		_ = json.Unmarshal(raw, &envelope)
		if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" || envelope.Error.Message == "" {
			t.Errorf("%s while it drains: %s, Retry-After %q, %s", path, answer.Status, answer.Header.Get("Retry-After"), raw)
		}
	}
	for path, want := range map[string]int{"/health": http.StatusServiceUnavailable, "/api/sessions/idle": http.StatusOK, "/api/boards": http.StatusOK} {
		answer := d.keyed("GET", path, d.key, "")
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s while it drains: %s", path, answer.Status)
		}
	}
	answer := d.keyed("POST", "/api/sessions/idle/messages", d.key, `{"text":"for later"}`)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusAccepted {
		t.Errorf("a message that may wait: %s", answer.Status)
	}
	var made struct {
		ID string `json:"run_id"`
	}
	d.call(http.MethodPost, "/v1/runs", map[string]string{"input": "a run for later"}, &made) // nobody waits for it either
	d.call(http.MethodPost, "/api/sessions/busy/stop", map[string]string{}, nil)
	<-ended
	if code, signal := d.end(); code != 0 || signal != 0 {
		t.Errorf("code %d, signal %d", code, signal)
	}
	again := start(t, d.home)
	again.until("what was accepted is answered", func() bool { return roles(again.rows("idle")) == "user assistant" })
	again.until("the run is done", func() bool {
		var run struct{ Status string }
		again.call(http.MethodGet, "/v1/runs/"+made.ID, nil, &run)
		return run.Status == "completed"
	})
	again.stop()
}
