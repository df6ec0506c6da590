package gateway

import (
	"context"
	"errors"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// Told is news of another program for a session that exists.
type Told struct {
	Session string
	UID     string // of its row: telling twice stores it once
	Text    string
	Wake    bool // the model answers it; otherwise it is a line for people, which the model is never sent
}

type told struct {
	Told
	stored chan struct{} // closed when the row is durable
}

// kindNotice is a row that no person and no model said.
const kindNotice = "notice"

func (n *told) row() sessiondb.NewMessage {
	role := roleSystem
	if n.Wake {
		role = roleUser
	}
	if mutation.On("news-without-its-key") {
		n.UID = ""
	}
	return sessiondb.NewMessage{UID: n.UID, Role: role, Content: n.Text, Kind: kindNotice}
}

// Tell stores news in a session, once for each UID, and returns when the row is durable; a turn that it wakes goes on by
// itself. It waits its place behind the turns before it, within ctx. An error means that nothing was stored, but for
// sessiondb.ErrSpooled: telling again with the same UID is right in every case.
func (g *Gateway) Tell(ctx context.Context, n Told) error {
	if err := g.opts.Store.Writable(); err != nil {
		return explained(err, "the store")
	}
	session, err := g.opts.Store.Session(ctx, n.Session)
	if err != nil {
		return explained(err, "session "+n.Session)
	}
	if known, err := g.opts.Store.HasMessage(ctx, n.UID); err != nil || known {
		return explained(err, "session "+n.Session)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // the turn outlives the call that woke it
	j := &job{
		say: Say{Session: n.Session, Source: SourceNotify, Text: n.Text, UID: n.UID, Detached: true, told: &told{n, make(chan struct{})}}, session: session,
		ctx: life, sink: newSink(nil), done: make(chan struct{}),
	}
	if err := g.enqueue(j); err != nil {
		end()
		return err
	}
	go func() { <-j.done; end() }()
	return g.awaitStored(ctx, j, end)
}

func (g *Gateway) awaitStored(ctx context.Context, j *job, end func()) error {
	stored := j.say.told.stored
	select {
	case <-stored:
		return nil
	case <-j.done:
	case <-ctx.Done():
		g.withdraw(j)
		end() // it may wait for another process; what it has stored meanwhile, it has
		<-j.done
	}
	select {
	case <-stored:
		return nil
	default:
	}
	if j.err == nil {
		return &problem.Error{Kind: problem.Interrupted, Thing: "session " + j.session.ID, What: "was not told", Fate: "nothing was stored", Err: context.Cause(ctx)}
	}
	if errors.Is(j.err, sessiondb.ErrSpooled) {
		return nil // it is safe, and comes back with its uid
	}
	return j.err
}
