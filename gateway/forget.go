package gateway

import "gatewayd/internal/problem"

// Forget ends the running turn of a session with a cause, and before that takes away everything that waits behind it, so that
// nothing of it is said any more; whoever waits is told. It gives the number of messages that were taken away. The inbox is the
// caller's to empty, in the transaction that ends the session.
func (g *Gateway) Forget(session string, cause error) (dropped int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.missed, session)
	c, ok := g.conversations[session]
	if !ok {
		return 0
	}
	dropped = len(c.box) + len(c.steers)
	for _, j := range c.box {
		j.refuse(&problem.Error{
			Kind: problem.Interrupted, Thing: "the message", What: "was dropped: a new conversation was begun", Fate: "nothing of it was stored", Remedy: "send it there",
		})
	}
	c.box, c.steers = nil, nil
	c.interrupt(cause)
	return dropped
}
