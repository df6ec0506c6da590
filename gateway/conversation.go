package gateway

import (
	"context"
	"runtime/debug"

	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// conversation is one session's place: a mailbox, and at most one turn. Its fields are guarded by Gateway.mu. It exists while its
// goroutine lives, and the goroutine ends in the same critical section that finds the mailbox empty, so no message is ever put
// into a box nobody reads.
type conversation struct {
	id   string
	box  []*job
	turn *turn
}

// job is one message on its way. result and err are set before done is closed.
type job struct {
	say     Say
	session sessiondb.Session
	ctx     context.Context // the caller's: its end is the client's going away
	sink    *sink
	done    chan struct{}
	result  Result
	err     error
}

func (j *job) refuse(err *problem.Error) {
	j.err = err
	close(j.done)
}

// enqueue puts a message into its conversation's mailbox and starts the conversation when there is none: one atomic claim.
func (g *Gateway) enqueue(j *job) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.draining {
		return errDraining()
	}
	c, ok := g.conversations[j.session.ID]
	if !ok {
		c = &conversation{id: j.session.ID}
		g.conversations[c.id] = c
		defer func() { go g.converse(c) }()
	}
	if len(c.box) >= g.opts.Mailbox {
		return errMailboxFull(c.id, len(c.box))
	}
	if j.say.Redirect {
		c.box = append([]*job{j}, c.box...)
		c.interrupt(Redirect)
		return nil
	}
	c.box = append(c.box, j)
	return nil
}

// withdraw takes a message back whose caller left before its turn began. A message whose turn runs is left to the turn.
func (g *Gateway) withdraw(j *job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.conversations[j.session.ID]
	if !ok {
		return
	}
	for i, waiting := range c.box {
		if waiting == j {
			c.box = append(c.box[:i:i], c.box[i+1:]...)
			j.refuse(errLeftEarly(context.Cause(j.ctx)))
			return
		}
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
		g.ended(c, j.result)
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
	j.result, j.err = t.run()
}

func (g *Gateway) ended(c *conversation, r Result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.turn = nil
	g.turns++
	switch {
	case r.Interrupted:
		g.interrupted++
	case !r.Completed:
		g.failed++
	}
}

// interrupt ends the running turn, if any. The first cause counts.
func (c *conversation) interrupt(cause error) bool {
	if c.turn == nil {
		return false
	}
	c.turn.cancel(cause)
	return true
}
