package api

import (
	"net/http"
	"testing"

	"gatewayd/kanban"
)

func TestABoardIsPausedDrainedAndResumed(t *testing.T) {
	shelf, bell := newShelf(t), &bell{}
	h, _ := plain(func(o *Options) { o.Boards, o.Dispatch = shelf, bell })
	if _, err := shelf.Create(t.Context(), "work", kanban.Meta{}); err != nil {
		t.Fatal(err)
	}
	pause := func() any { return decoded(t, ask(h, "GET", "/api/boards/work/tasks", ""))["pause"] }
	for _, c := range []struct {
		route, body string
		status      int
		mode        any
	}{
		{"pause", `{"reason":"freeze","by":"ann"}`, http.StatusOK, "pause"},
		{"pause", `{"kill":true}`, http.StatusBadRequest, "pause"},
		{"drain", `{"reason":"move","kill":true}`, http.StatusOK, "drain"},
		{"resume", `{}`, http.StatusOK, nil},
		{"resume", `{}`, http.StatusConflict, nil},
	} {
		w := ask(h, "POST", "/api/boards/work/"+c.route, c.body)
		var mode any
		if p, ok := pause().(map[string]any); ok {
			mode = p["mode"]
		}
		if w.Code != c.status || mode != c.mode {
			t.Errorf("%s %s: %d %s, then %v", c.route, c.body, w.Code, w.Body, mode)
		}
	}
	if len(bell.woken) < 3 {
		t.Errorf("the dispatcher was woken for %v", bell.woken)
	}
}
