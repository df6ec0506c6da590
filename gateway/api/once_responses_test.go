package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"gatewayd/gateway"
	"gatewayd/gateway/runs"
	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

// A response whose process ended in its middle is told from the rows, with the name that it was begun under; one of which nothing was said
// is made now, and no half of the first try remains.
func TestAResponseThatWasCutOffIsToldFromTheRows(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "fine"})
	for key, body := range map[string]string{
		"whole": `{"input":"hello"}`, "stream": `{"input":"hello","stream":true}`, "unstored": `{"input":"hello","store":false}`,
	} {
		o := h.begun(t, "/v1/responses", key, body)
		l := h.lease(t, "resp-"+key)
		if key != "unstored" {
			h.put(t, sessiondb.Response{ID: "resp_" + key, Session: l.Session, UID: o.UID, Status: sessiondb.ResponseInProgress})
		}
		h.append(t, l, sessiondb.NewMessage{UID: o.UID, TurnID: "turn_" + key, Role: "user", Content: "hello"},
			sessiondb.NewMessage{TurnID: "turn_" + key, Role: "assistant", Content: "from the rows", FinishReason: "stop"})
		got := h.must(t, "/v1/responses", key, body)
		if got.status != http.StatusOK || got.replayed != "true" || !strings.Contains(got.body, "from the rows") || !strings.Contains(got.body, "resp_"+key) ||
			!strings.Contains(got.body, `"status":"completed"`) {
			t.Errorf("%s: %+v", key, got)
		}
		if again := h.must(t, "/v1/responses", key, body); again.body != got.body {
			t.Errorf("%s once more: %+v", key, again)
		}
	}
	o := h.begun(t, "/v1/responses", "cut", `{"input":"hello"}`)
	h.append(t, h.lease(t, "resp-cut"), sessiondb.NewMessage{UID: o.UID, TurnID: "turn_cut", Role: "user", Content: "hello"},
		sessiondb.NewMessage{TurnID: "turn_cut", Role: "assistant", Content: "[ended]", Kind: "closing"})
	if got := h.must(t, "/v1/responses", "cut", `{"input":"hello"}`); got.status != http.StatusConflict || !strings.Contains(got.body, `"code":"interrupted"`) {
		t.Errorf("a turn that was closed: %+v", got)
	}
	if n := len(h.llm.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
	fresh := h.begun(t, "/v1/responses", "fresh", `{"input":"hello"}`)
	h.lease(t, "resp-half")
	h.put(t, sessiondb.Response{ID: "resp_half", Session: "resp-half", UID: fresh.UID, Status: sessiondb.ResponseInProgress})
	if got := h.must(t, "/v1/responses", "fresh", `{"input":"hello"}`); got.status != http.StatusOK || !strings.Contains(got.body, "fine") {
		t.Errorf("of which nothing was said: %+v", got)
	}
	if _, err := h.store.Response(t.Context(), callerID(h.holder(t)), "resp_half"); err == nil {
		t.Error("the first try's half is left")
	}
}

func (h *house) put(t *testing.T, r sessiondb.Response) {
	t.Helper()
	r.Owner, r.CreatedAt = callerID(h.holder(t)), time.Now()
	if err := h.store.PutResponse(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// A run whose request was cut off is the run that was begun, and is begun now where there is none.
func TestARunThatWasCutOffIsFoundAgain(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "fine"}, fakellm.Text{Text: "fine"})
	body := `{"input":"hello"}`
	o := h.begun(t, "/v1/runs", "found", body)
	session, err := h.store.CreateSession(t.Context(), sessiondb.NewSession{ID: "run-1", Source: gateway.SourceAPI})
	if err != nil {
		t.Fatal(err)
	}
	run, err := h.options.Runs.Start(t.Context(), runs.Ask{
		Owner: callerID(h.holder(t)), Say: gateway.Say{Session: session.ID, Source: gateway.SourceAPI, Text: "hello", UID: o.UID},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := h.must(t, "/v1/runs", "found", body); got.status != http.StatusAccepted || got.replayed != "true" || !strings.Contains(got.body, run.ID) {
		t.Errorf("%+v, not %s", got, run.ID)
	}
	h.begun(t, "/v1/runs", "new", body)
	if got := h.must(t, "/v1/runs", "new", body); got.status != http.StatusAccepted || got.replayed == "true" || strings.Contains(got.body, run.ID) {
		t.Errorf("of which nothing is stored: %+v", got)
	}
	list, err := h.store.Runs(t.Context(), sessiondb.RunFilter{})
	if err != nil || len(list) != 2 {
		t.Errorf("%d runs, %v", len(list), err)
	}
}
