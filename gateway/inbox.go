package gateway

import (
	"context"
	"errors"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

const (
	rescueEvery = 15 * time.Second // how often messages are tried again whose turn did not begin
	rescueMost  = 20               // tries of one life of the daemon; the next start begins anew
	startsMost  = 10               // starts that a message may have seen before it is held back for a person
)

// Post accepts a message and returns as soon as it is committed; its turn comes by itself, also when the daemon is killed now. The
// error (*problem.Error) means that it was not accepted. While gatewayd stops, messages that may wait are accepted and held for the
// next start, and those that would end a running turn are refused.
func (g *Gateway) Post(ctx context.Context, say Say) (Accepted, error) {
	say, err := say.illustrated()
	if err != nil {
		return Accepted{}, err
	}
	session, err := g.admit(ctx, say)
	if err != nil {
		return Accepted{}, err
	}
	accepted, _, err := g.accept(ctx, session, say, newSink(nil))
	return accepted, err
}

// Steer says something into the running turn of a session: its row follows the next completed tool result. A turn that ends
// without one gives it back (Result.PendingSteer), and it is the next message behind those that wait; so it is where no turn runs.
func (g *Gateway) Steer(ctx context.Context, session, text string) (Accepted, error) {
	return g.Post(ctx, Say{Session: session, Source: SourceAPI, Text: text, Mode: ModeSteer, Detached: true})
}

// admit refuses what no turn can be made of, and finds the session.
func (g *Gateway) admit(ctx context.Context, say Say) (sessiondb.Session, error) {
	say.Detached = true
	if err := say.usable(); err != nil {
		return sessiondb.Session{}, err
	}
	if err := g.opts.Store.Writable(); err != nil {
		return sessiondb.Session{}, explained(err, "the store")
	}
	return g.resolve(ctx, say)
}

// accept commits a message and sends it on its way. The job is nil for one that is said already and for one that was said into a
// running turn.
func (g *Gateway) accept(ctx context.Context, session sessiondb.Session, say Say, s *sink) (Accepted, *job, error) {
	if g.stops() && say.Mode.urgent() {
		return Accepted{}, nil, errDraining(false)
	}
	if say.UID == "" {
		say.UID = sessiondb.NewUID()
	}
	w := sessiondb.Waiting{
		UID: say.UID, Session: session.ID, Mode: sessiondb.InboxTurn, Source: say.Source, Dir: say.Dir, Content: say.Text, Wire: say.Wire,
	}
	if say.Mode == ModeSteer {
		w.Mode = sessiondb.InboxSteer
	}
	accepted := Accepted{Session: session.ID, UID: say.UID, Position: 1}
	if !mutation.On("accepted-before-committed") {
		place, err := g.opts.Store.Accept(ctx, w, g.opts.Mailbox, say.Run)
		if err != nil {
			return Accepted{}, nil, g.refused(err, "session "+session.ID)
		}
		if accepted.Position = place; place == 0 {
			return accepted, nil, nil
		}
	}
	return g.dispatch(session, say, w, s, accepted)
}

// dispatch sends a message of the inbox on its way: into the running turn, or into the mailbox.
func (g *Gateway) dispatch(session sessiondb.Session, say Say, w sessiondb.Waiting, s *sink, accepted Accepted) (Accepted, *job, error) {
	if say.Mode == ModeSteer && g.steer(w) {
		return accepted, nil, nil
	}
	j := g.waitingJob(session, w)
	j.sink, j.say.Mode, j.say.Title, j.say.Wishes = s, say.Mode, say.Title, say.Wishes
	if say.Mode == ModeSteer {
		j.say.Mode = ModeQueue
	}
	switch err := g.enqueue(j); {
	case errors.Is(err, errOnItsWay):
		return accepted, nil, nil
	case err != nil: // gatewayd is stopping; the message is answered after the next start
		accepted.Held = true
		return accepted, nil, nil
	}
	return accepted, j, nil
}

// waitingJob is a message of the inbox as a turn of its own.
func (g *Gateway) waitingJob(session sessiondb.Session, w sessiondb.Waiting) *job {
	return &job{
		say: Say{
			Session: w.Session, Source: w.Source, Dir: w.Dir, Text: w.Content, Wire: w.Wire, UID: w.UID, Detached: true, waiting: true,
		},
		session: session, ctx: context.Background(), sink: newSink(nil), done: make(chan struct{}),
	}
}

func (g *Gateway) stops() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.draining
}

// steer hands a message to the turn that runs, if there is one.
func (g *Gateway) steer(w sessiondb.Waiting) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.conversations[w.Session]
	if !ok || c.turn == nil {
		return false
	}
	if !c.holds(w.UID) {
		c.steers = append(c.steers, w)
	}
	return true
}

// steersOf takes what was said into a turn.
func (g *Gateway) steersOf(session string) []sessiondb.Waiting {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.conversations[session]
	if !ok {
		return nil
	}
	steers := c.steers
	c.steers = nil
	return steers
}

// unsteer gives back what could not be stored: it is said after the turn.
func (g *Gateway) unsteer(session string, steers []sessiondb.Waiting) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c, ok := g.conversations[session]; ok && !mutation.On("steers-are-dropped") {
		c.steers = append(steers, c.steers...)
	}
}

// sayAccepted is Say for a message that outlives its caller.
func (g *Gateway) sayAccepted(ctx context.Context, session sessiondb.Session, say Say, read func(Event)) (Result, error) {
	s := newSink(read)
	defer s.close()
	accepted, j, err := g.accept(ctx, session, say, s)
	switch {
	case err != nil:
		return Result{}, err
	case accepted.Held:
		return Result{}, errDraining(true)
	case j == nil && say.Mode == ModeSteer:
		return Result{Session: session.ID, Completed: true, ExitReason: "steered"}, nil
	case j == nil:
		return Result{}, errSaidAlready(session.ID, say.UID)
	}
	select {
	case <-j.done:
	case <-ctx.Done():
		return Result{Session: session.ID}, errGoesOn(session.ID, context.Cause(ctx))
	}
	j.result.SinkDropped = s.close()
	return j.result, j.err
}

func errSaidAlready(session, uid string) error {
	return &problem.Error{
		Kind: problem.Conflict, Thing: "message " + uid, What: "is in session " + session + " already", Fate: "nothing was stored a second time",
		Remedy: "read the session",
	}
}

func errGoesOn(session string, cause error) error {
	return &problem.Error{
		Kind: problem.Interrupted, Thing: "session " + session, What: "is no longer waited for", Fate: "the message is accepted and its turn goes on",
		Remedy: "read the session, or follow its events", Err: cause,
	}
}

// Withdraw takes an accepted message back that has not begun, and reports whether it was still there.
func (g *Gateway) Withdraw(ctx context.Context, session, uid string) (bool, error) {
	if !g.unqueue(session, uid) {
		return false, nil
	}
	was, err := g.opts.Store.Withdraw(ctx, uid)
	return was, explained(err, "message "+uid)
}

// unqueue takes a message out of memory, unless its turn has begun.
func (g *Gateway) unqueue(session, uid string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.conversations[session]
	if !ok {
		return true // it may wait for its turn to be tried again
	}
	if c.turn != nil && c.turn.say.UID == uid {
		return false
	}
	for i, j := range c.box {
		if j.say.UID == uid {
			c.box = append(c.box[:i:i], c.box[i+1:]...)
			j.refuse(errLeftEarly(errors.New("withdrawn")))
			return true
		}
	}
	for i, w := range c.steers {
		if w.UID == uid {
			c.steers = append(c.steers[:i:i], c.steers[i+1:]...)
			return true
		}
	}
	return true
}

// collect makes jobs of what waits in the inbox since an earlier life, in the order of acceptance.
func (g *Gateway) collect(ctx context.Context) error {
	waiting, err := g.opts.Store.Inbox(ctx, "")
	if err != nil || len(waiting) == 0 || mutation.On("inbox-is-left-at-restart") {
		return err
	}
	var uids []string
	for _, w := range waiting {
		uids = append(uids, w.UID)
	}
	if err := g.opts.Store.Tried(ctx, uids...); err != nil {
		return err
	}
	for _, w := range waiting {
		if w.Attempts >= startsMost {
			g.log.Error("accepted message held back, each start has failed with it", "session", w.Session, "uid", w.UID, "starts", w.Attempts)
			continue
		}
		session, err := g.opts.Store.Session(ctx, w.Session)
		if err != nil {
			g.log.Error("accepted message waits, its session cannot be read", "session", w.Session, "error", err)
			continue
		}
		g.hold(g.waitingJob(session, w))
	}
	g.log.Info("accepted messages found", "messages", len(waiting))
	return nil
}

// rescue tries messages again whose turn did not begin, until ctx ends.
func (g *Gateway) rescue(ctx context.Context) {
	tick := time.NewTicker(rescueEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		g.lookAgain(ctx)
		for _, session := range g.overdue() {
			if err := g.again(ctx, session); err != nil {
				g.log.Warn("accepted messages wait on", "session", session, "error", err)
			}
		}
	}
}

// lookAgain is look for a store that took no rows at the start and takes them now.
func (g *Gateway) lookAgain(ctx context.Context) {
	g.mu.Lock()
	missed := g.blind
	g.mu.Unlock()
	if !missed || g.opts.Store.Writable() != nil {
		return
	}
	if _, err := g.look(ctx); err != nil {
		g.log.Warn("interrupted turns not all found", "error", err)
	}
}

// overdue gives the sessions whose messages are to be tried again.
func (g *Gateway) overdue() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []string
	for session, tries := range g.missed {
		if tries < rescueMost {
			out = append(out, session)
		}
	}
	return out
}

// again enqueues what waits in the inbox of a session and is not on its way.
func (g *Gateway) again(ctx context.Context, id string) error {
	if err := g.opts.Store.Writable(); err != nil {
		return err
	}
	waiting, err := g.opts.Store.Inbox(ctx, id)
	if err != nil {
		return err
	}
	g.mu.Lock()
	if len(waiting) == 0 {
		delete(g.missed, id)
	}
	c := g.conversations[id]
	var lost []sessiondb.Waiting
	for _, w := range waiting {
		if c == nil || !c.holds(w.UID) {
			lost = append(lost, w)
		}
	}
	g.mu.Unlock()
	for _, w := range lost {
		session, err := g.opts.Store.Session(ctx, id)
		if err != nil {
			return err
		}
		if g.enqueue(g.waitingJob(session, w)) != nil {
			return nil // it is stopping, and they wait for the next start; or somebody was quicker
		}
	}
	return nil
}
