package chamber

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	p.a.Say(Event{Event: "halted", Class: string(p.store.File().Reason()), Text: cause.Error()})
	if err := p.close(); err != nil {
		return fmt.Errorf("close the lost handle: %w", err)
	}
	limit := time.Now().Add(healLimit)
	for {
		err := p.open(ctx)
		if err == nil {
			p.a.Say(Event{Event: "healed", Mode: p.store.File().Journal().Mode})
			return nil
		}
		if !isLoss(sqlite.ClassOf(err)) || time.Now().After(limit) {
			return fmt.Errorf("open after a loss: %w", err)
		}
		if err := p.a.pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}
