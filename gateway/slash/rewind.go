package slash

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"gatewayd/gateway"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// undo is /undo [n].
func (r *Runner) undo(ctx context.Context, c Context, line Line) (Reply, error) {
	n, ok := Exchanges(line)
	if !ok {
		return Reply{}, errUsage(line.Command, "wants how many exchanges to take back, 1 or more, not %.50q", line.Args)
	}
	back, err := r.rewind(ctx, c.Session, line.Command, n)
	if err != nil {
		return Reply{}, err
	}
	first := back.Removed[0]
	return Reply{
		Text: fmt.Sprintf("Taken back: %s. The first was: %s\nWhat tools did is not undone.", count(n, "exchange"), brief(first.Content)),
		Data: map[string]any{"exchanges": n, "rows": len(back.Removed), "live": back.Active, "text": first.Content},
	}, nil
}

// Exchanges gives how many exchanges a line of /undo takes back.
func Exchanges(line Line) (n int, ok bool) {
	if line.Args == "" {
		return 1, true
	}
	n, err := strconv.Atoi(line.Args)
	return n, err == nil && n > 0
}

// retry is /retry: the surface says again what Say holds.
func (r *Runner) retry(ctx context.Context, c Context, line Line) (Reply, error) {
	back, err := r.rewind(ctx, c.Session, line.Command, 1)
	if err != nil {
		return Reply{}, err
	}
	first := back.Removed[0]
	return Reply{
		Text: "Asked again: " + brief(first.Content),
		Data: map[string]any{"rows": len(back.Removed), "live": back.Active, "text": first.Content},
		Say:  &gateway.Say{Session: c.Session, Source: c.Source, Text: first.Content, Wire: first.Wire},
	}, nil
}

// rewind takes back the last n exchanges. More than there are is an error and not all of them: who counts wrong must not lose a
// conversation by it.
func (r *Runner) rewind(ctx context.Context, session string, c Command, n int) (back sessiondb.Rewound, err error) {
	err = r.holding(ctx, session, "/"+c.Name, 0, func(l sessiondb.Lease) error {
		rows, err := r.Store.Transcript(ctx, session)
		if err != nil {
			return err
		}
		there := len(sessiondb.Exchanges(rows))
		if n > there {
			return errOutOfRange(c, session, n, there)
		}
		back, err = r.Store.RewindTurns(ctx, l, there-n+1)
		return err
	})
	if errors.Is(err, sessiondb.ErrSessionMissing) {
		err = errNothing(c, session)
	}
	return back, err
}

// outOfRange is sessiondb.ErrRewindTarget for errors.Is, without its words.
type outOfRange struct{}

func (outOfRange) Error() string { return "" }
func (outOfRange) Unwrap() error { return sessiondb.ErrRewindTarget }

func errOutOfRange(c Command, session string, n, there int) error {
	what := fmt.Sprintf("reaches back %s, and %s has %d that can be taken back", count(n, "exchange"), sessionName(session), there)
	return &problem.Error{
		Kind: problem.Conflict, Thing: "/" + c.Name, What: what, Fate: "nothing was changed",
		Remedy: "take back fewer; what was compressed or taken back before does not count", Field: "n", Err: outOfRange{},
	}
}
