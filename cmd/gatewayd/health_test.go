package main

import (
	"testing"

	"gatewayd/gateway/api"
)

// What a supervisor does with the answer is to start again. What a new start does not mend must not ask for one.
func TestHealthFailsAndLivenessOnlyWhereAStartHelps(t *testing.T) {
	check := func(name, status string) []api.Check {
		return []api.Check{{Name: "model", Status: "ok"}, {Name: name, Status: status, Reason: "the reason"}}
	}
	for _, c := range []struct {
		w          wellness
		well, live bool
		says       string
	}{
		{wellness{"ok", check("x", "ok")}, true, true, "ok"},
		{wellness{"degraded", check("model", "degraded")}, true, true, "degraded; model: the reason"},
		{wellness{"degraded", check("state.db", "failed")}, false, true, "degraded; state.db: the reason"},
		{wellness{"degraded", check(actorsCheck, "failed")}, false, false, "degraded; actors: the reason"},
		{wellness{"draining", check("x", "ok")}, false, true, "draining"},
	} {
		if well, live := c.w.refusal(false) == nil, c.w.refusal(true) == nil; well != c.well || live != c.live || c.w.sentence() != c.says {
			t.Errorf("%+v: well %v, live %v, %q", c.w, well, live, c.w.sentence())
		}
	}
}
