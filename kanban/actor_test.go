package kanban

import (
	"errors"
	"testing"

	"gatewayd/internal/problem"
)

func TestAWorkerReachesItsOwnCardAndAddsToOthers(t *testing.T) {
	worker, person := Actor{Name: "t_own", Task: "t_own", Run: 7}, Actor{Name: "ann"}
	for _, c := range []struct {
		verb, card string
		may        bool
	}{
		{"complete", "t_own", true},
		{"complete", "t_other", false},
		{"block", "t_own", true},
		{"block", "t_other", false},
		{"comment", "t_other", true},
		{"create", "", true},
		{"link", "t_other", true},
		{"unblock", "t_other", false},
		{"unblock", "t_own", false},
		{"reclaim", "t_own", false},
		{"delete", "t_other", false},
		{"purge", "t_other", false},
		{"a verb that nobody thought of", "t_own", false},
	} {
		err := worker.May(c.verb, c.card)
		if (err == nil) != c.may || err != nil && (!problem.Is(err, problem.Denied) || !errors.Is(err, ErrDenied)) {
			t.Errorf("worker, %s %s: %v", c.verb, c.card, err)
		}
		if err := person.May(c.verb, c.card); err != nil {
			t.Errorf("person, %s %s: %v", c.verb, c.card, err)
		}
	}
	if run := worker.Fence("t_own"); run == nil || *run != 7 {
		t.Errorf("fence of its own card: %v", run)
	}
	if worker.Fence("t_other") != nil || person.Fence("t_own") != nil {
		t.Error("a fence where there is none")
	}
}
