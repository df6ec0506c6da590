package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gatewayd/sessiondb"
)

// Recover finds the turns whose process died, repairs their transcripts once, and says what became of each. It is called at the
// start, before messages are taken; a transcript it misses is repaired by its next turn all the same, and so is one of a store
// that takes no rows now. The error is about finding them; a repair that failed is in its Recovered.
func (g *Gateway) Recover(ctx context.Context) ([]Recovered, error) {
	g.reclaim(ctx)
	if err := g.opts.Store.Writable(); err != nil {
		g.log.Warn("interrupted turns are not looked for, the store takes no rows", "error", err)
		return nil, nil
	}
	leases, err := g.opts.Store.Leases(ctx)
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	var out []Recovered
	for _, l := range leases {
		if l.Kind != sessiondb.Turn || !g.abandoned(l) {
			continue
		}
		r, ok := g.recoverOne(ctx, l)
		if !ok {
			continue
		}
		g.log.Warn("interrupted turn found", "session", r.Session, "turn", r.TurnID, "outcome", r.Outcome, "error", r.Err)
		out = append(out, r)
	}
	return out, nil
}

// reclaim waits, within a bound, until what dead processes left running has ended: a turn must not meet the commands of the one
// before it.
func (g *Gateway) reclaim(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := g.opts.Tools.Reclaim(ctx); err != nil {
		g.log.Warn("commands of an earlier life not all ended", "error", err)
	}
}

// abandoned reports that nobody works under this lease any more. Where the process cannot be looked up, the home's lock tells:
// there is one daemon, and it is this one.
func (g *Gateway) abandoned(l sessiondb.Lease) bool {
	if l.Holder.Dead() {
		return true
	}
	self, err := g.holder("")
	if err != nil || self.Identity == l.Holder.Identity {
		return false
	}
	return g.opts.Sole && strings.HasPrefix(l.Holder.Label, daemonLabel) && !l.Holder.Alive()
}

// recoverOne repairs under a lease of its own; ok is false when somebody else was quicker.
func (g *Gateway) recoverOne(ctx context.Context, dead sessiondb.Lease) (Recovered, bool) {
	failed := func(err error) (Recovered, bool) {
		return Recovered{Session: dead.Session, Outcome: "not repaired yet; its next message tries again", Err: err}, !errors.Is(err, sessiondb.ErrLeaseHeld)
	}
	if err := g.opts.Store.Break(ctx, dead); err != nil {
		return failed(err)
	}
	holder, err := g.holder("recovery")
	if err != nil {
		return failed(err)
	}
	l, err := g.opts.Store.TryTurn(ctx, dead.Session, holder, g.opts.LeaseTTL)
	if err != nil {
		return failed(err)
	}
	defer func() {
		if err := g.opts.Store.Release(context.WithoutCancel(ctx), l); err != nil {
			g.log.Warn("recovery lease not released, it runs out by itself", "session", l.Session, "error", err)
		}
	}()
	_, r, err := g.mend(ctx, l)
	if err != nil {
		return failed(err)
	}
	out := r.recovered(dead.Session)
	if r.empty() || out.TurnID == "" { // the last row is of the turn before
		out.TurnID = dead.Holder.Label[strings.LastIndex(dead.Holder.Label, " ")+1:]
	}
	return out, true
}
