package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

// Recover finds the turns whose process died, decides about each and says so: a detached one is resumed, at most Resume times and
// while it is fresh; the others are repaired, explained and closed. It finds the accepted messages that had not begun, too. It is
// called at the start, before messages are taken; what it lets go on begins with Run. A transcript it misses is repaired by its
// next turn all the same, and so is one of a store that takes no rows now. The error is about finding them; a repair that failed
// is in its Recovered.
func (g *Gateway) Recover(ctx context.Context) ([]Recovered, error) {
	g.reclaim(ctx)
	return g.look(ctx)
}

// look is Recover without waiting for commands: in the middle of a life they are this one's.
func (g *Gateway) look(ctx context.Context) ([]Recovered, error) {
	err := g.opts.Store.Writable()
	g.mu.Lock()
	g.blind = err != nil
	g.mu.Unlock()
	if err != nil {
		g.log.Warn("interrupted turns are not looked for, the store takes no rows", "error", err)
		return nil, nil
	}
	if g.opts.Approvals != nil { // before the transcripts are mended, which say what became of the calls that waited
		if _, err := g.opts.Approvals.CloseStale(ctx); err != nil {
			g.log.Warn("approvals of an earlier life not closed", "error", err)
		}
	}
	found, err := g.cutOff(ctx)
	if err != nil {
		return nil, err
	}
	var out []Recovered
	for _, c := range found {
		r, ok := g.recoverOne(ctx, c)
		if !ok {
			continue
		}
		g.log.Warn("interrupted turn found", "session", r.Session, "turn", r.TurnID, "decision", r.Decision, "outcome", r.Outcome, "error", r.Err)
		out = append(out, r)
	}
	g.note(out, 0)
	g.dropUnbegun(ctx)
	if err := g.collect(ctx); err != nil {
		return out, fmt.Errorf("read inbox: %w", err)
	}
	return out, nil
}

// dropUnbegun takes away what a process before this one had made for a message that it then did not store.
func (g *Gateway) dropUnbegun(ctx context.Context) {
	if !g.opts.Sole || mutation.On("unbegun-sessions-stay") {
		return
	}
	dropped, err := g.opts.Store.DropUnbegun(ctx, g.began)
	if err != nil {
		g.log.Warn("sessions whose message was never stored not all deleted, the next start tries again", "error", err)
	}
	for _, session := range dropped {
		g.log.Info("session deleted, the message that it was made for was never stored", "session", session)
	}
}

// cutTurn is a turn that nobody works on: what is pending of it, the lease that its process left, or both.
type cutTurn struct {
	session string
	pending *sessiondb.Pending
	lease   *sessiondb.Lease
}

// cutOff finds the turns that nobody works on any more. One whose lease is held by a process that lives is that one's.
func (g *Gateway) cutOff(ctx context.Context) ([]cutTurn, error) {
	leases, err := g.opts.Store.Leases(ctx)
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	pendings, err := g.opts.Store.Pendings(ctx)
	if err != nil {
		return nil, fmt.Errorf("list pending turns: %w", err)
	}
	held, dead := map[string]bool{}, map[string]*sessiondb.Lease{}
	var out []cutTurn
	for i, l := range leases {
		switch {
		case l.Kind != sessiondb.Turn:
		case g.abandoned(l):
			dead[l.Session] = &leases[i]
		default:
			held[l.Session] = true
		}
	}
	for i, p := range pendings {
		if held[p.Session] {
			continue
		}
		out = append(out, cutTurn{p.Session, &pendings[i], dead[p.Session]})
		delete(dead, p.Session)
	}
	for _, l := range leases {
		if one := dead[l.Session]; one != nil && l.Kind == sessiondb.Turn {
			out = append(out, cutTurn{l.Session, nil, one})
		}
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

// recoverOne decides about a turn and writes it, under a lease of its own; ok is false when somebody else was quicker.
func (g *Gateway) recoverOne(ctx context.Context, c cutTurn) (Recovered, bool) {
	failed := func(err error) (Recovered, bool) {
		return Recovered{
			Session: c.session, TurnID: c.turn(), Decision: DecisionWaits, Outcome: "not repaired yet; its next message tries again", Err: err,
		}, !errors.Is(err, sessiondb.ErrLeaseHeld)
	}
	if c.lease != nil {
		if err := g.opts.Store.Break(ctx, *c.lease); err != nil {
			return failed(err)
		}
	}
	holder, err := g.holder("recovery")
	if err != nil {
		return failed(err)
	}
	l, err := g.opts.Store.TryTurn(ctx, c.session, holder, g.opts.LeaseTTL)
	if err != nil {
		return failed(err)
	}
	defer func() {
		if err := g.opts.Store.Release(context.WithoutCancel(ctx), l); err != nil {
			g.log.Warn("recovery lease not released, it runs out by itself", "session", l.Session, "error", err)
		}
	}()
	out, err := g.decide(ctx, l, c)
	if err != nil {
		return failed(err)
	}
	return out, true
}

func (c cutTurn) turn() string {
	if c.pending != nil {
		return c.pending.Turn
	}
	if c.lease == nil {
		return ""
	}
	return c.lease.Holder.Label[strings.LastIndex(c.lease.Holder.Label, " ")+1:]
}

// decide is what becomes of a turn that was cut off. The rows say whether it had ended; the pending record, whether it may go on.
func (g *Gateway) decide(ctx context.Context, l sessiondb.Lease, c cutTurn) (Recovered, error) {
	if c.pending == nil {
		return g.shut(ctx, l, c, "")
	}
	rows, err := g.opts.Store.Transcript(ctx, l.Session)
	if err != nil {
		return Recovered{}, fmt.Errorf("read transcript: %w", err)
	}
	if ended(rows, c.pending.Turn) {
		out, err := g.shut(ctx, l, c, "")
		out.Decision = DecisionEnded
		return out, err
	}
	why, suspended := g.refuses(*c.pending, rows)
	if why == "" {
		return g.goOn(ctx, l, *c.pending)
	}
	out, err := g.shut(ctx, l, c, cutOffAnswer+why)
	if suspended {
		out.Decision = DecisionSuspended
	}
	return out, err
}

// refuses gives the reason not to resume a turn, in the words of its closing row; a space is a reason that needs no words.
func (g *Gateway) refuses(p sessiondb.Pending, rows []sessiondb.Message) (why string, suspended bool) {
	cut := p.TriedAt
	for _, row := range rows {
		if row.TurnID == p.Turn && row.CreatedAt.After(cut) {
			cut = row.CreatedAt
		}
	}
	switch resumes := p.Attempts - 1; {
	case !p.Detached, g.opts.Resume < 0:
		return " ", false
	case resumes >= g.opts.Resume && p.Mark != sessiondb.MarkLeft && !mutation.On("resumed-for-ever"):
		return fmt.Sprintf(" It is not tried again: %d processes have ended while they worked on it.", p.Attempts), true
	case time.Since(cut) > g.opts.ResumeFresh:
		return fmt.Sprintf(" It is not gone on with: that was more than %s ago.", g.opts.ResumeFresh), false
	}
	return "", false
}

// goOn counts one more process, durably, and lets the turn begin from its rows once Run is there.
func (g *Gateway) goOn(ctx context.Context, l sessiondb.Lease, p sessiondb.Pending) (Recovered, error) {
	again, err := g.opts.Store.Retry(ctx, l, p.Turn, p.Mark == sessiondb.MarkLeft)
	if err != nil {
		return Recovered{}, fmt.Errorf("count the attempt: %w", err)
	}
	session, err := g.opts.Store.Session(ctx, p.Session)
	if err != nil {
		return Recovered{}, fmt.Errorf("read session: %w", err)
	}
	g.hold(&job{
		say: Say{Session: p.Session, Source: p.Source, Dir: p.Dir, Detached: true, UID: p.UserUID, pending: &again}, session: session,
		ctx: context.Background(), sink: newSink(nil), done: make(chan struct{}),
	})
	return Recovered{
		Session: p.Session, TurnID: p.Turn, Decision: DecisionResumed, Attempts: again.Attempts,
		Outcome: fmt.Sprintf("goes on from its rows, process %d of at most %d", again.Attempts, g.opts.Resume+1),
	}, nil
}

// shut repairs and closes a turn, with other words for its last row where there are any.
func (g *Gateway) shut(ctx context.Context, l sessiondb.Lease, c cutTurn, words string) (Recovered, error) {
	rows, r, err := g.closeOff(ctx, l, strings.TrimRight(words, " "))
	if err != nil {
		return Recovered{}, err
	}
	out := r.recovered(c.session)
	if err := g.explain(ctx, l, rows, &r, &out); err != nil {
		return Recovered{}, err
	}
	if c.pending != nil {
		out.Attempts = c.pending.Attempts
		if _, err := g.opts.Store.End(ctx, l, c.pending.Turn, nil); err != nil {
			return Recovered{}, fmt.Errorf("end pending turn: %w", err)
		}
	}
	if r.empty() || out.TurnID == "" { // the last row is of the turn before
		out.TurnID = c.turn()
	}
	return out, nil
}

// explain turns the visible beginning of an answer, which a stop had put aside, into the closing row that says why there is no more.
func (g *Gateway) explain(ctx context.Context, l sessiondb.Lease, rows []sessiondb.Message, r *repair, out *Recovered) error {
	out.Decision = DecisionClosed
	if !r.empty() || len(rows) == 0 {
		return nil
	}
	last := rows[len(rows)-1]
	if last.Kind != kindCheckpoint || last.Role != roleAssistant || r.words == "" {
		out.Decision = DecisionEnded
		return nil
	}
	content, kind := join(last.Content, r.closing()), kindClosing
	err := g.opts.Store.Repair(ctx, l, []sessiondb.RowRepair{{ID: last.ID, OldDigest: last.Digest(), Content: &content, Kind: &kind}})
	if err != nil {
		return fmt.Errorf("close an answer that was put aside: %w", err)
	}
	out.Closed, out.Outcome = true, "a closing row says so"
	return nil
}

// hold keeps a turn until Run, or lets it go when Run is there.
func (g *Gateway) hold(j *job) {
	g.mu.Lock()
	if !g.running {
		g.held = append(g.held, j)
		if j.say.pending == nil {
			g.receipt.Waiting++
		}
		g.mu.Unlock()
		return
	}
	g.mu.Unlock()
	g.letGo(j)
}

// release lets everything go that was held: turns that go on before messages that wait.
func (g *Gateway) release() {
	g.mu.Lock()
	held := g.held
	g.running, g.held = true, nil
	g.mu.Unlock()
	for _, j := range held {
		g.letGo(j)
	}
}

// Open reports that what was in flight has been let go, and messages are answered as they come.
func (g *Gateway) Open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running
}

func (g *Gateway) letGo(j *job) {
	if j.say.pending != nil {
		g.mu.Lock()
		g.resumed++
		g.mu.Unlock()
	}
	if err := g.enqueue(j); err != nil { // it is stopping again; the next start finds it
		g.log.Info("held turn not begun", "session", j.session.ID, "error", err)
	}
}
