package dispatch

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatewayd/config"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

// Without a dispatcher too: a lane is found by what is configured, and by what is installed.
func TestALaneThatCardsWaitForInVainIsFoundOnceForAllOfThem(t *testing.T) {
	h := newHouse(t)
	program := filepath.Join(h.dir, "not-installed")
	h.config.Lanes["broken"] = config.Lane{Argv: []string{program}}
	b := h.board("plans")
	nowhere := []string{card(t, b, "nobody"), card(t, b, "nobody")}
	broken := card(t, b, "broken")
	card(t, b, "ok")
	card(t, b, "")
	done := card(t, b, "gone-too")
	must(t, b.Complete(t.Context(), done, kanban.Completion{Summary: "by hand"}))
	lanes, err := worker.NewLanes(h.config, "")
	must(t, err)
	list, err := Diagnose(t.Context(), b, h.config, lanes, h.local.Environ)
	must(t, err)
	if len(list) != 2 {
		t.Fatalf("findings: %+v", list)
	}
	program1, unknown := list[0], list[1]
	if program1.Kind != kanban.DiagnosticProgram || program1.Severity != kanban.SeverityError || program1.Count != 1 || program1.Task != "" ||
		!strings.Contains(program1.Detail, program) || program1.Title != "a ready card waits for lane broken in vain" || !slices.Equal(tasksOf(program1), []string{broken}) {
		t.Errorf("%+v", program1)
	}
	slices.Sort(nowhere)
	waiting := tasksOf(unknown)
	slices.Sort(waiting)
	if unknown.Kind != kanban.DiagnosticNoLane || unknown.Severity != kanban.SeverityWarning || unknown.Count != 2 || unknown.First == 0 ||
		unknown.Title != "2 ready cards wait for lane nobody in vain" || !slices.Equal(waiting, nowhere) {
		t.Errorf("%+v", unknown)
	}
	for _, f := range list {
		if len(f.Actions) != 1 || !f.Actions[0].Suggested || f.Actions[0].Label == "" || f.Detail == "" {
			t.Errorf("%s does not say what to do: %+v", f.Kind, f)
		}
	}

	delete(h.config.Lanes, "broken")
	h.config.Lanes["nobody"] = config.Lane{Argv: []string{"sh", "-c", "exit 0"}}
	must(t, b.Assign(t.Context(), broken, "ok"))
	lanes, err = worker.NewLanes(h.config, "")
	must(t, err)
	if list, err := Diagnose(t.Context(), b, h.config, lanes, h.local.Environ); err != nil || len(list) != 0 {
		t.Errorf("once there is a lane for each: %+v, %v", list, err)
	}
}

func tasksOf(f kanban.Diagnostic) []string {
	ids, _ := f.Data["tasks"].([]string)
	return ids
}
