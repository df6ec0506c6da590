package chamber

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
	"gatewayd/sessiondb"
)

// healLimit is how long a process waits until it may open the store again: until every other holder of the lost
// generation has let go too.
const healLimit = 60 * time.Second

// survive deals with a loss that this part was told to survive, and gives every other error back. The row that met it
// stays without an acknowledgement.
func (p *pen) survive(ctx context.Context, err error) error {
	switch {
	case p.a.Full && sqlite.ClassOf(err) == sqlite.NoSpace:
		p.a.Say(Event{Event: "full", Text: err.Error()})
		return p.a.pause(ctx, 100*time.Millisecond)
	case p.a.Heal && (isLoss(sqlite.ClassOf(err)) || errors.Is(err, sessiondb.ErrSpooled)):
		return p.heal(ctx, err)
	}
	return err
}

// isLoss reports the ways in which a handle can lose the file under it.
func isLoss(class sqlite.Class) bool {
	return class == sqlite.LostWAL || class == sqlite.Replaced || class == sqlite.Overwritten
}

// heal gives the lost handle up and opens a new one, as the daemon's registry does.
func (p *pen) heal(ctx context.Context, cause error) error {
	return p.a.heal(ctx, p.store.File().Reason(), cause, p.close, func() (string, error) {
		if err := p.open(ctx); err != nil {
			return "", err
		}
		return p.store.File().Journal().Mode, nil
	})
}

// heal says what was lost and why, closes for good, and opens anew once every other holder has let go too. open tells the
// journal mode.
func (a *Actor) heal(ctx context.Context, reason sqlite.Reason, cause error, shut func() error, open func() (string, error)) error {
	a.Say(Event{Event: "halted", Class: string(reason), Text: cause.Error()})
	if err := shut(); err != nil {
		return fmt.Errorf("close the lost handle: %w", err)
	}
	limit := time.Now().Add(healLimit)
	for {
		mode, err := open()
		if err == nil {
			a.Say(Event{Event: "healed", Mode: mode})
			return nil
		}
		othersHold := isLoss(sqlite.ClassOf(err)) || problem.Is(err, problem.Busy)
		if !othersHold || time.Now().After(limit) {
			return fmt.Errorf("open after a loss: %w", err)
		}
		if err := a.pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}
