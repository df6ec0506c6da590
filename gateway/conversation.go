package gateway

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// conversation is one session's place: a mailbox, and at most one turn. Its fields are guarded by Gateway.mu. It exists while its
// goroutine lives, and the goroutine ends in the same critical section that finds the mailbox empty, so no message is ever put
// into a box nobody reads.
type conversation struct {
	id     string
	box    []*job
	turn   *turn
	steers []sessiondb.Waiting // said into the turn that runs, in the inbox until their rows are stored
}

// job is one message on its way. result and err are set before done is closed.
type job struct {
	say     Say
	session sessiondb.Session
	work    func(*turn) error // what is done in the turn's place; nil: it answers
	ctx     context.Context   // the caller's: its end is the client's going away
	sink    *sink
	done    chan struct{}
	result  Result
	err     error
}

func (j *job) refuse(err *problem.Error) {
	j.err = err
	close(j.done)
}

// enqueue puts a message into its conversation's mailbox and starts the conversation when there is none: one atomic claim. A
// message that lies in the inbox is never refused: it stays there.
func (g *Gateway) enqueue(j *job) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.draining {
		return errDraining(j.say.waiting)
	}
	c, ok := g.conversations[j.session.ID]
	if !ok {
		c = &conversation{id: j.session.ID}
		g.conversations[c.id] = c
		defer func() { go g.converse(c) }()
	}
	if j.say.waiting && c.holds(j.say.UID) {
		return errOnItsWay
	}
	if len(c.box) >= g.opts.Mailbox && !j.say.waiting && j.say.pending == nil {
		return errMailboxFull(c.id, len(c.box))
	}
	if before := len(c.box); c.turn != nil || before > 0 {
		j.sink.put(Event{Kind: EventQueued, Text: fmt.Sprintf("place %d in this conversation", before+1)})
	}
	c.put(j)
	return nil
}

// errOnItsWay: the same message of the inbox is in the conversation already.
var errOnItsWay = errors.New("on its way")

// put gives a message its place, and ends the running turn where the message asks for it.
func (c *conversation) put(j *job) {
	if !j.say.Mode.urgent() || c.turn != nil && c.turn.compacting() {
		c.box = append(c.box, j)
		return
	}
	c.behindUrgent(j)
	if c.turn != nil && c.turn.ctx.Err() == nil {
		c.turn.displaced = !mutation.On("displaced-messages-are-withdrawn")
	}
	if j.say.Mode == ModeRedirect {
		c.interrupt(Redirect)
	} else {
		c.interrupt(Stop)
	}
}

// behindUrgent gives a message the first place behind those that end a turn.
func (c *conversation) behindUrgent(j *job) {
	at := 0
	for at < len(c.box) && c.box[at].say.Mode.urgent() {
		at++
	}
	c.box = slices.Insert(c.box, at, j)
}

// urgent modes end the turn that runs.
func (m Mode) urgent() bool { return m == ModeRedirect || m == ModeInterrupt }

// holds reports that a message of the inbox is on its way here already.
func (c *conversation) holds(uid string) bool {
	return c.turn != nil && c.turn.say.UID == uid ||
		slices.ContainsFunc(c.box, func(j *job) bool { return j.say.UID == uid }) ||
		slices.ContainsFunc(c.steers, func(w sessiondb.Waiting) bool { return w.UID == uid })
}

// withdraw takes a message back whose caller left before its turn began. A message whose turn runs is left to the turn.
func (g *Gateway) withdraw(j *job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.conversations[j.session.ID]
	if !ok {
		return
	}
	if i := slices.Index(c.box, j); i >= 0 {
		c.box = slices.Delete(c.box, i, i+1)
		j.refuse(errLeftEarly(context.Cause(j.ctx)))
	}
}

func errLeftEarly(cause error) *problem.Error {
	return &problem.Error{Kind: problem.Interrupted, Thing: "the message", What: "was withdrawn before its turn began", Fate: "nothing of it was stored", Err: cause}
}

// converse is the conversation's goroutine.
func (g *Gateway) converse(c *conversation) {
	for {
		j, t := g.next(c)
		if j == nil {
			return
		}
		g.attempt(t, j)
		withdraw, again := g.ended(c, j)
		if again {
			continue
		}
		if withdraw {
			if _, err := g.opts.Store.Withdraw(context.Background(), j.say.UID); err != nil {
				g.log.Warn("a stopped message stays in the inbox", "session", c.id, "error", err)
			}
		}
		close(j.done)
	}
}

// next takes the first message, or ends the conversation.
func (g *Gateway) next(c *conversation) (*job, *turn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(c.box) == 0 {
		delete(g.conversations, c.id)
		if g.draining && len(g.conversations) == 0 {
			close(g.idle)
		}
		return nil, nil
	}
	j := c.box[0]
	c.box = c.box[1:]
	c.turn = g.newTurn(j)
	return j, c.turn
}

// attempt runs a turn. A panic is a bug of ours: it costs this turn, which the next one's repair closes, and nobody else's.
func (g *Gateway) attempt(t *turn, j *job) {
	defer func() {
		if p := recover(); p != nil {
			g.log.Error("turn panicked", "session", t.session.ID, "turn", t.id, "panic", p, "stack", string(debug.Stack()))
			j.err = &problem.Error{
				Kind: problem.Internal, Thing: "session " + t.session.ID, What: "hit a bug in gatewayd",
				Fate: "what was stored before is kept", Remedy: "send the message again; please report the log's stack",
			}
		}
	}()
	if j.work != nil {
		j.result, j.err = Result{Session: t.session.ID, Completed: true}, j.work(t)
		return
	}
	j.result, j.err = t.run()
}

// ended counts a turn. What was said into it and found no place becomes messages of their own, behind those that wait. A message of the
// inbox whose turn did not begin comes next (again) where another message took its place, is to be withdrawn where a person stopped it, and
// is tried again later otherwise.
func (g *Gateway) ended(c *conversation, j *job) (withdraw, again bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := c.turn
	c.turn = nil
	for _, w := range c.steers {
		j.result.PendingSteer = append(j.result.PendingSteer, w.Content)
		if !g.draining {
			c.box = append(c.box, g.waitingJob(j.session, w))
		}
	}
	c.steers = nil
	if withdraw = j.err != nil && j.say.waiting && context.Cause(t.ctx) == Stop && !t.displaced; withdraw {
		g.log.Info("accepted message stopped before its turn began", "session", c.id, "turn", t.id, "uid", j.say.UID)
		t.feed.put(Event{Kind: EventNotice, UID: j.say.UID, Text: fmt.Sprintf("Stopped before its turn began, and taken back: %.80q", j.say.Text)})
	}
	t.feed.end(&j.result)
	if j.err != nil && j.say.waiting && !withdraw {
		if t.displaced && !g.draining {
			j.result, j.err, j.say.Mode = Result{}, nil, ModeQueue
			c.behindUrgent(j)
			return false, true
		}
		g.missed[c.id]++
		j.err = errTriedAgain(j.err)
	}
	g.turns++
	r := j.result
	switch {
	case r.Interrupted:
		g.interrupted++
	case !r.Completed:
		g.failed++
	}
	return withdraw, false
}

// errTriedAgain tells who waits for an accepted message that its turn could not begin. A bug is told as it is.
func errTriedAgain(err error) error {
	p, ok := errors.AsType[*problem.Error](err)
	if !ok || p.Kind == problem.Internal {
		return err
	}
	out := *p
	out.Fate, out.Remedy, out.Err = "the message is accepted, and its turn is tried again", "do not send it again; read the session later", isAccepted{p.Err}
	return &out
}

// ErrAccepted is in an error about a message that is accepted all the same, and is not to be sent again.
var ErrAccepted = errors.New("the message is accepted")

// isAccepted says no more than the error that it wraps.
type isAccepted struct{ error }

func (a isAccepted) Error() string {
	if a.error == nil {
		return ""
	}
	return a.error.Error()
}
func (a isAccepted) Unwrap() error        { return a.error }
func (a isAccepted) Is(target error) bool { return target == ErrAccepted }

// interrupt ends the running turn, if any. The first cause counts.
func (c *conversation) interrupt(cause error) bool {
	if c.turn == nil {
		return false
	}
	c.turn.end(cause)
	return true
}
