package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"gatewayd/config"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

// Thresholds are the configuration's.
func Thresholds(c config.Kanban) kanban.Thresholds {
	d := c.Diagnostics
	return kanban.Thresholds{
		Failures: cmp.Or(d.FailureThreshold, c.FailureLimit), Crashes: d.CrashThreshold, BlockCycles: d.BlockCycleThreshold, Stranded: d.StrandedThreshold,
	}
}

// Diagnose is what the board itself knows, and what is wrong with the lanes that its waiting cards ask for. It works
// without a dispatcher.
func Diagnose(ctx context.Context, b *kanban.Board, c config.Kanban, lanes *worker.Lanes, environ config.Environ) ([]kanban.Diagnostic, error) {
	list, err := b.Diagnose(ctx, Thresholds(c))
	if err != nil {
		return nil, err
	}
	ready, err := b.List(ctx, kanban.Filter{Status: kanban.StatusReady})
	if err != nil {
		return nil, err
	}
	list = append(list, diagnoseLanes(ready, lanes, environ)...)
	kanban.SortDiagnostics(list)
	return list, nil
}

// Diagnose is the function for a board that this dispatcher's daemon serves.
func (d *Dispatcher) Diagnose(ctx context.Context, b *kanban.Board) ([]kanban.Diagnostic, error) {
	return Diagnose(ctx, b, d.tuned().Kanban, d.tuned().Lanes, d.o.Environ)
}

// diagnoseLanes has one finding for each lane that cards wait for in vain, however many they are.
func diagnoseLanes(ready []kanban.Task, lanes *worker.Lanes, environ config.Environ) []kanban.Diagnostic {
	waiting := map[string][]kanban.Task{}
	for _, t := range ready {
		if t.Assignee != "" {
			waiting[t.Assignee] = append(waiting[t.Assignee], t)
		}
	}
	var list []kanban.Diagnostic
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		lane, known := lanes.Lookup(name)
		hold := Situation{Lanes: lanes}.noLane(name)
		f := kanban.Diagnostic{Kind: kanban.DiagnosticNoLane, Severity: kanban.SeverityWarning}
		if known {
			if hold = missing(lane, environ); hold == nil {
				continue
			}
			f.Kind, f.Severity = kanban.DiagnosticProgram, kanban.SeverityError
		}
		cards := waiting[name]
		f.Title, f.Detail = fmt.Sprintf("%d ready cards wait for lane %s in vain", len(cards), name), hold.Detail
		if len(cards) == 1 {
			f.Title = "a ready card waits for lane " + name + " in vain"
		}
		f.Actions = []kanban.Action{{Kind: kanban.ActionHint, Label: hold.Remedy, Suggested: true}}
		f.Count, f.First = len(cards), oldest(cards)
		f.Data = map[string]any{"assignee": name, "tasks": ids(cards)}
		list = append(list, f)
	}
	return list
}

func oldest(cards []kanban.Task) (at int64) {
	for i, t := range cards {
		if i == 0 || t.CreatedAt < at {
			at = t.CreatedAt
		}
	}
	return at
}

// ids names the first cards of many.
func ids(cards []kanban.Task) []string {
	const some = 20
	list := make([]string, 0, min(len(cards), some))
	for _, t := range cards[:min(len(cards), some)] {
		list = append(list, t.ID)
	}
	return list
}
