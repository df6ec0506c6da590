package runs

import (
	"context"
	"fmt"

	"gatewayd/gateway"
	"gatewayd/gateway/tool"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// Stop ends a run: what waits is taken back, and what runs is interrupted. It returns at once, and the run as it is then; its end comes
// as an event. One that has ended stays as it is.
func (d *Desk) Stop(ctx context.Context, owner, id string) (sessiondb.Run, error) {
	run, err := d.Get(ctx, owner, id)
	f := d.follower(id)
	if err != nil || run.EndedAt != nil || f == nil {
		return run, err
	}
	if f.status() != sessiondb.RunStopping {
		f.tellStopping()
	}
	if gone, err := d.opts.Chat.Withdraw(ctx, run.Session, run.UID); err != nil {
		return run, err
	} else if gone {
		f.cancelled()
	} else {
		d.opts.Chat.InterruptMessage(run.Session, run.UID, gateway.Stop)
	}
	return d.Get(ctx, owner, id)
}

func (f *follower) tellStopping() {
	f.serial.Lock()
	defer f.serial.Unlock()
	if !f.over {
		f.store(sessiondb.RunChange{Status: sessiondb.RunStopping}, event(f.run.ID, EventStopping, map[string]any{}))
	}
}

var stoppedEarly = end{status: sessiondb.RunCancelled, reason: "stopped before its turn began; nothing of it was said"}

// cancelled ends a run whose turn had not begun.
func (f *follower) cancelled() {
	f.serial.Lock()
	defer f.serial.Unlock()
	if !f.over {
		f.finish(stoppedEarly)
	}
}

// Steer says something into a run: its row follows the next result of a tool. A Conflict problem for one whose turn has not begun or has
// ended.
func (d *Desk) Steer(ctx context.Context, owner, id, text string) (gateway.Accepted, error) {
	run, err := d.Get(ctx, owner, id)
	if err != nil {
		return gateway.Accepted{}, err
	}
	if run.EndedAt != nil || run.Turn == "" {
		return gateway.Accepted{}, &problem.Error{
			Kind: problem.Conflict, Thing: "run " + id, What: "is " + run.Status + ": nothing can be said into it", Fate: "nothing was stored",
			Remedy: "start another run in session " + run.Session,
		}
	}
	return d.opts.Chat.Steer(ctx, run.Session, text)
}

// Approve answers what a run asks. Without an approval's id it is the one that waits; a Conflict problem when there is none, or several.
func (d *Desk) Approve(ctx context.Context, owner, id, approval, decision, by string) (gateway.Approval, error) {
	run, err := d.Get(ctx, owner, id)
	if err != nil {
		return gateway.Approval{}, err
	}
	if d.opts.Approvals == nil {
		return gateway.Approval{}, errNobodyAsks(id)
	}
	waiting, err := d.opts.Approvals.List(ctx, sessiondb.ApprovalFilter{State: sessiondb.ApprovalPending, Session: run.Session})
	if err != nil {
		return gateway.Approval{}, err
	}
	var mine []string
	for _, a := range waiting {
		if a.Turn == run.Turn && run.Turn != "" && (approval == "" || a.ID == approval) {
			mine = append(mine, a.ID)
		}
	}
	switch len(mine) {
	case 0:
		return gateway.Approval{}, errNobodyAsks(id)
	case 1:
		return d.opts.Approvals.Decide(ctx, mine[0], tool.Choice(decision), by)
	}
	return gateway.Approval{}, &problem.Error{
		Kind: problem.Conflict, Thing: "run " + id, What: fmt.Sprintf("asks %d things at once: %v", len(mine), mine), Fate: "nothing was decided",
		Remedy: "name one of them as approval_id", Field: "approval_id",
	}
}

func errNobodyAsks(id string) error {
	return &problem.Error{Kind: problem.Conflict, Thing: "run " + id, What: "asks nothing that could be answered", Fate: "nothing was decided"}
}
