package gateway

import (
	"context"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// usable refuses what no turn can be made of.
func (s Say) usable() error {
	switch said := s.Text != "" || s.Wire != ""; {
	case s.Continue && (said || s.Detached || s.Mode != ModeQueue || s.Session == "" || len(s.History) > 0):
		return &problem.Error{Kind: problem.Invalid, Thing: "the message", What: "goes on from the rows of a named session, and says something beside", Fate: "nothing was stored"}
	case !s.Continue && !said:
		return &problem.Error{Kind: problem.Invalid, Thing: "the message", What: "is empty", Fate: "nothing was stored"}
	}
	return nil
}

// sessionOf is the session of a message; only one that says something makes a new one.
func (g *Gateway) sessionOf(ctx context.Context, say Say) (sessiondb.Session, error) {
	if !say.Continue {
		return g.resolve(ctx, say)
	}
	session, err := g.opts.Store.Session(ctx, say.Session)
	return session, explained(err, "session "+say.Session)
}

// goOnward begins a turn without a message: the model is asked from the rows as they are. Turns of ours leave no such rows behind, each ends
// with words or is mended at the next start; they come with conversations from elsewhere.
func (t *turn) goOnward() error {
	rows, err := t.g.opts.Store.Transcript(t.ctx, t.lease.Session)
	if err != nil {
		return t.notOpened(err)
	}
	if !endsInResults(rows) && !mutation.On("goes-on-from-any-row") {
		return &problem.Error{
			Kind: problem.Conflict, Thing: "session " + t.session.ID, What: "does not end with the results of its calls, so there is nothing to go on from",
			Fate: "nothing was stored", Remedy: "say something",
		}
	}
	t.rows = rows
	if t.system, err = t.prompt(); err != nil {
		return t.notOpened(err)
	}
	return nil
}

// endsInResults reports that the rows end with a block of calls of which each has its result, none of them cut short.
func endsInResults(rows []sessiondb.Message) bool {
	if len(rows) == 0 || rows[len(rows)-1].Role != roleTool {
		return false
	}
	for i := len(rows) - 1; i >= 0 && rows[i].Role == roleTool; i-- {
		if rows[i].Kind == kindInterrupted {
			return false
		}
	}
	var r repair
	r.openCalls(rows)
	return r.empty()
}
