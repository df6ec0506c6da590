// Package doctor looks at a home and says how it is: one Check for each thing that the daemon depends on, with what to do where something is
// wrong. It promises to do no harm: databases are read from private copies, so nothing is opened, recovered, checkpointed or closed in
// the originals, whoever has them open; no lock is taken but those of a reader; every look is bounded. What it mends, it mends in
// Fix alone, and only what cannot lose anything.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gatewayd/internal/problem"
)

// State is how a thing is.
type State string

// The states. Only Fail means that something does not work; Warn is what will not go well for ever.
const (
	OK      State = "ok"
	Warn    State = "warn"
	Fail    State = "fail"
	Unknown State = "unknown" // it could not be looked at
	Skipped State = "skipped" // it was not looked at, and Says says why
)

// Check is what one look found. Name is stable and has a row in docs/doctor.md; Subject is which one where there are many: a
// database, a lane.
type Check struct {
	Name    string `json:"name"`
	Subject string `json:"subject,omitempty"`
	State   State  `json:"state"`
	Says    string `json:"says"`
	Remedy  string `json:"remedy,omitempty"` // a clause or a command
	Fixed   string `json:"fixed,omitempty"`  // what Fix did
	// Fix mends it and says what it did. It is nil where nothing is safe to do; it looks again before it acts.
	Fix func(context.Context) (string, error) `json:"-"`
}

func good(format string, args ...any) Check {
	return Check{State: OK, Says: fmt.Sprintf(format, args...)}
}

func bad(state State, remedy, format string, args ...any) Check {
	return Check{State: state, Says: fmt.Sprintf(format, args...), Remedy: remedy}
}

// wrong takes the remedy out of the error where it has one.
func wrong(state State, err error) Check {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		bare := *p
		bare.Remedy = ""
		return Check{State: state, Says: bare.Error(), Remedy: p.Remedy}
	}
	return Check{State: state, Says: err.Error()}
}

// unless is the check where nothing was found wrong.
func unless(found []Check, fine Check) []Check {
	if len(found) > 0 {
		return found
	}
	return []Check{fine}
}

// probe is one look. Its name is given to every check that it makes.
type probe struct {
	name string
	look func(context.Context, *House) []Check
	raw  bool // it can look although the configuration cannot be read
}

// lookTime bounds each look but those at databases, whose copying takes as long as they are large.
const lookTime = 10 * time.Second

// Examine makes all looks, those at the house side by side, and gives the checks in their order. It blocks until the slowest is done.
func Examine(ctx context.Context, h *House) []Check {
	found := make([][]Check, len(probes))
	var looking sync.WaitGroup
	for i, p := range probes {
		if h.Broken != nil && !p.raw {
			continue
		}
		looking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, lookTime)
			defer cancel()
			found[i] = p.look(ctx, h)
			for n := range found[i] {
				found[i][n].Name = p.name
			}
		})
	}
	looking.Wait()
	var all []Check
	for _, checks := range found {
		all = append(all, checks...)
	}
	for _, db := range h.Databases {
		all = append(all, examineDatabase(ctx, h, db)...)
	}
	return all
}

// Mend runs the fixes of what is not well, and notes in each check what came of it. A check that was mended is OK from then on.
func Mend(ctx context.Context, checks []Check) {
	for i := range checks {
		c := &checks[i]
		if c.Fix == nil || c.State == OK {
			continue
		}
		did, err := c.Fix(ctx)
		if err != nil {
			c.Fixed = "not mended: " + err.Error()
			continue
		}
		c.State, c.Remedy, c.Fixed = OK, "", did
	}
}

// Counts is how many checks there are of each state.
func Counts(checks []Check) map[State]int {
	n := map[State]int{OK: 0, Warn: 0, Fail: 0, Unknown: 0, Skipped: 0}
	for _, c := range checks {
		n[c.State]++
	}
	return n
}

// Names are those of all checks that there can be.
func Names() (names []string) {
	for _, p := range probes {
		names = append(names, p.name)
	}
	for _, p := range databaseProbes {
		names = append(names, p.name)
	}
	return names
}
