package kanban

import (
	"context"
	"slices"

	"gatewayd/internal/sqlite"
)

// RunState narrows a card's attempts: By is status or outcome, Name the word that it must be. The zero value does not.
type RunState struct{ By, Name string }

// Of gives the attempts that are in the state.
func (s RunState) Of(runs []Run) ([]Run, error) {
	var word func(Run) string
	switch {
	case s == RunState{}:
		return runs, nil
	case s.By == "status":
		word = func(r Run) string { return r.Status }
	case s.By == "outcome":
		word = func(r Run) string { return r.Outcome }
	default:
		return nil, invalidField("run_state_type", "run state "+quote(s.By), "is not known", "use status or outcome, with a name")
	}
	if s.Name == "" {
		return nil, invalidField("run_state_name", "run state "+s.By, "has no name", "say which "+s.By+" is meant")
	}
	return slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return word(r) != s.Name }), nil
}

const selectRun = `SELECT ` + runColumns + ` FROM task_runs r WHERE r.id = ?`

// Run gives one attempt.
func (b *Board) Run(ctx context.Context, id RunID) (Run, error) {
	var found []Run
	err := b.read(ctx, func(c *sqlite.Conn) (err error) {
		found, err = collect(c, scanRunRow, selectRun, int64(id))
		return err
	})
	if err == nil && len(found) == 0 {
		return Run{}, missingRun(id)
	}
	return append(found, Run{})[0], err
}
