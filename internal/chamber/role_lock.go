package chamber

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"gatewayd/internal/sqlite"
)

// lockerRole holds the write lock until it is stopped. At SIGUSR1 it opens and closes the files, which would take the
// lock away from it if locks belonged to the process.
func lockerRole(ctx context.Context, a *Actor) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGUSR1)
	defer signal.Stop(told)
	a.Say(Event{Event: "ready", Mode: s.File().Journal().Mode, Text: s.File().Journal().Reason})
	err = s.File().Write(ctx, sqlite.Op{Label: "hold the lock", Do: func(*sqlite.Tx) error {
		a.Say(Event{Event: "locked"})
		for {
			select {
			case <-told:
				if err := a.stray(); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	}})
	return errors.Join(err, s.Close())
}

// proberRole tries to write once and does not wait. It ends with the error that it meets, or with "entered".
func proberRole(ctx context.Context, a *Actor) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	a.Say(Event{Event: "ready", Mode: s.File().Journal().Mode})
	err = s.File().Write(ctx, sqlite.Op{Label: "try the lock", Patience: -1, Do: func(tx *sqlite.Tx) error {
		_, err := tx.Exec(`INSERT OR REPLACE INTO meta(k, v) VALUES('chamber', 1)`)
		return err
	}})
	if err == nil {
		a.Say(Event{Event: "entered"})
	}
	return errors.Join(err, s.Close())
}
