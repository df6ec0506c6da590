package chamber

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gatewayd/internal/sqlite"
)

// salvageRole brings back what the captures beside the store hold, the oldest first, and then once more: the second time
// there is nothing to do.
func salvageRole(ctx context.Context, a *Actor) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	found, err := sqlite.Captures(a.StorePath())
	slices.Reverse(found)
	for range 2 {
		rows := 0
		for _, c := range found {
			if err != nil {
				break
			}
			out, serr := s.Salvage(ctx, c, false)
			if err = serr; err == nil && !out.Done {
				err = fmt.Errorf("salvage of %s is not done: %+v", c.Dir, out)
			}
			rows += out.Messages
		}
		a.Say(Event{Event: "salvaged", Count: rows})
	}
	return errors.Join(err, s.Close())
}

// salvaged brings back what was captured.
func salvaged() Fault {
	return Fault{Name: "salvage", Do: func(ctx context.Context, s *Stage) error { return s.alone(ctx, Part{Role: "salvage"}) }}
}
