package notify

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/kanban"
)

// testTime is less than a client of the API waits.
const testTime = 20 * time.Second

// Test sends a message of kind test to a subscriber at once, beside the outbox, and answers what came of it: nil when it
// arrived.
func (n *Notifier) Test(ctx context.Context, board *kanban.Board, subscription int64) error {
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	s, err := board.Subscription(ctx, subscription)
	if err != nil {
		return err
	}
	to, err := n.o.Targets.find(ctx, s.Target, s.Address)
	switch {
	case err != nil:
		return err
	case to == nil:
		return kanban.NeverServed(s.Target, s.Address)
	}
	e := s.Probe("gwt_"+strings.ToLower(rand.Text()), time.Now())
	m, err := newMessage(board.Slug(), e.Parcel)
	if err != nil {
		return err
	}
	if o := to.send(ctx, m); o.verdict != accepted {
		return &problem.Error{
			Kind: problem.Unavailable, Thing: s.Target + " " + s.Address, What: "did not take the test: " + o.err, Fate: "nothing was changed",
			Remedy: "mend it and test again; `gatewayd kanban notify retry` sends what is parked",
		}
	}
	return nil
}
