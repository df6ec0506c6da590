package slash

import (
	"context"
	"fmt"
	"strings"

	"gatewayd/gateway"
	"gatewayd/gateway/tool"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// approve is /approve [id] [session|always].
func (r *Runner) approve(ctx context.Context, c Context, line Line) (Reply, error) {
	id, choice := "", tool.ChoiceOnce
	for _, word := range strings.Fields(line.Args) {
		switch strings.ToLower(word) {
		case "once":
		case "session":
			choice = tool.ChoiceSession
		case "always":
			choice = tool.ChoiceAlways
		default:
			if id != "" {
				return Reply{}, errUsage(line.Command, "does not know %.50q", word)
			}
			id = word
		}
	}
	return r.decide(ctx, c, line.Command, id, choice)
}

// deny is /deny [id].
func (r *Runner) deny(ctx context.Context, c Context, line Line) (Reply, error) {
	return r.decide(ctx, c, line.Command, line.Args, tool.ChoiceDeny)
}

// decide answers what was asked. Without an id it is the one thing that is asked in this conversation; of several, none.
func (r *Runner) decide(ctx context.Context, c Context, command Command, id string, choice tool.Choice) (Reply, error) {
	asked, err := r.asked(ctx, c.Session)
	if err != nil {
		return Reply{}, err
	}
	one, err := choose(asked, command, id)
	if err != nil {
		return Reply{}, err
	}
	decided, err := r.Approvals.Decide(ctx, one.ID, choice, c.Source)
	if err != nil {
		return Reply{}, err
	}
	return Reply{Text: verdict(decided), Data: decided}, nil
}

func verdict(a gateway.Approval) string {
	return fmt.Sprintf("%s: %s: %s", a.ID, a.State, brief(a.Effect))
}

// choose finds what a decision is about. An id may be cut short where one only begins so.
func choose(asked []gateway.Approval, command Command, id string) (gateway.Approval, error) {
	var found []gateway.Approval
	for _, a := range asked {
		if strings.HasPrefix(a.ID, id) {
			found = append(found, a)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(asked) == 0:
		return gateway.Approval{}, &problem.Error{Kind: problem.NotFound, Thing: "/" + command.Name, What: "has nothing to decide: no tool of this conversation asks for anything", Fate: "nothing was changed"}
	case len(found) == 0:
		return gateway.Approval{}, &problem.Error{Kind: problem.NotFound, Thing: "/" + command.Name, What: fmt.Sprintf("finds no request %.50q here", id), Fate: "nothing was changed", Remedy: "name one of: " + ids(asked)}
	}
	return gateway.Approval{}, &problem.Error{Kind: problem.Conflict, Thing: "/" + command.Name, What: fmt.Sprintf("could mean %s", count(len(found), "request")), Fate: "nothing was decided", Remedy: "name one of: " + ids(found)}
}

func ids(list []gateway.Approval) string {
	var names []string
	for _, a := range list {
		names = append(names, a.ID)
	}
	return strings.Join(names, ", ")
}

// asked lists what is asked in a session.
func (r *Runner) asked(ctx context.Context, session string) ([]gateway.Approval, error) {
	if r.Approvals == nil {
		return nil, nil
	}
	return r.Approvals.List(ctx, sessiondb.ApprovalFilter{Session: session, State: sessiondb.ApprovalPending})
}
