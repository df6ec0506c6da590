package chamber

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"gatewayd/sessiondb"
)

// leaseRole takes a short lease, writes one row, and holds still until SIGUSR1; then it writes another one with the
// same lease. Whoever stops the process in between for longer than the lease lives makes that second row a late one.
func leaseRole(ctx context.Context, a *Actor) error {
	p, err := a.newPen(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	woken := make(chan os.Signal, 1)
	signal.Notify(woken, syscall.SIGUSR1)
	defer signal.Stop(woken)
	p.ready()
	session, err := p.session(ctx, 0)
	if err != nil {
		return err
	}
	lease, err := p.store.AcquireTurn(ctx, session, p.self, a.TTL)
	if err != nil {
		return err
	}
	if err := p.write(ctx, lease, sessiondb.NewMessage{Role: "user", Content: "in time"}); err != nil {
		return err
	}
	a.Say(Event{Event: "holding", Text: session})
	select {
	case <-woken:
	case <-ctx.Done():
		return nil
	}
	return p.write(ctx, lease, sessiondb.NewMessage{Role: "assistant", Content: "late"})
}

// thiefRole waits for the lease of a conversation that is another process's, takes it when it may, and answers.
func thiefRole(ctx context.Context, a *Actor) error {
	if a.Session == "" {
		return fmt.Errorf("role thief needs a session")
	}
	p, err := a.newPen(ctx)
	if err != nil {
		return err
	}
	p.ready()
	err = p.turn(ctx, a.Session, func(l sessiondb.Lease) error {
		a.Say(Event{Event: "stole", Text: l.Session})
		return p.resume(ctx, l)
	})
	if err == nil {
		a.Say(Event{Event: "answered"})
		<-ctx.Done()
	}
	return errors.Join(unlessStopped(ctx, err), p.close())
}
