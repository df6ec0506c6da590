package api

import (
	"context"
	"net/http"
	"testing"

	"gatewayd/internal/problem"
	"gatewayd/kanban"
)

// knows is a notifier that knows one address and hears nobody.
type knows string

func (k knows) Check(_ context.Context, _, address string) error {
	if address != string(k) {
		return &problem.Error{Kind: problem.Invalid, Thing: address, What: "is not configured", Fate: "nothing was changed"}
	}
	return nil
}

func (k knows) Test(context.Context, *kanban.Board, int64) error { return nil }

func TestSubscriptionsOverHTTP(t *testing.T) {
	const list = "/api/boards/plans/subscriptions"
	boards := newShelf(t)
	h, _ := plain(func(o *Options) { o.Boards, o.Dispatch, o.Notices = boards, &bell{}, knows("ops") })
	ask(h, "POST", "/api/boards", `{"slug":"plans"}`)
	task, _ := decoded(t, ask(h, "POST", "/api/boards/plans/tasks", `{"title":"a card"}`))["task"].(map[string]any)
	id := task["id"].(string)

	w := ask(h, "POST", list, `{"task":"`+id+`","target":"webhook","address":"ops","kinds":["blocked"],"created_by":"me"}`)
	made, _ := decoded(t, w)["subscription"].(map[string]any)
	if w.Code != http.StatusCreated || made["id"] != 1.0 || made["task"] != id || made["target"] != "webhook" || made["address"] != "ops" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(h, "POST", list, `{"target":"webhook","address":"ops"}`); w.Code != http.StatusCreated {
		t.Errorf("for the whole board: %d %s", w.Code, w.Body)
	}
	for body, code := range map[string]int{
		`{"target":"webhook","address":"nowhere"}`:                 http.StatusBadRequest,
		`{"target":"pigeon","address":"ops"}`:                      http.StatusBadRequest,
		`{"target":"webhook","address":"ops","kind":"blocked"}`:    http.StatusBadRequest,
		`{"target":"webhook","address":"ops","task":"t_ffffffff"}`: http.StatusNotFound,
	} {
		if w := ask(h, "POST", list, body); w.Code != code {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	ask(h, "POST", "/api/boards/plans/tasks/"+id+"/block", `{"reason":"which one?"}`)
	rows, _ := decoded(t, ask(h, "GET", list+"?task="+id, ""))["subscriptions"].([]any)
	if len(rows) != 1 || rows[0].(map[string]any)["pending"] != 1.0 {
		t.Errorf("list: %v", rows)
	}
	if out, _ := decoded(t, ask(h, "GET", "/api/boards/plans/outbox?subscription=1", ""))["outbox"].([]any); len(out) != 1 {
		t.Errorf("outbox: %v", out)
	}
	if got := decoded(t, ask(h, "POST", list+"/1/retry", `{}`)); got["retried"] != 1.0 {
		t.Errorf("retry: %v", got)
	}
	if w := ask(h, "DELETE", list+"/1", ""); w.Code != http.StatusOK {
		t.Errorf("end: %d %s", w.Code, w.Body)
	}
	refused(t, ask(h, "DELETE", list+"/1", ""), http.StatusNotFound, "not_found")
	refused(t, ask(h, "DELETE", list+"/one", ""), http.StatusBadRequest, "invalid_value")

	off, _ := plain(func(o *Options) { o.Boards = boards })
	if w := ask(off, "POST", list, `{"target":"webhook","address":"ops"}`); w.Code < 400 {
		t.Errorf("with nobody who tells: %d %s", w.Code, w.Body)
	}
}
