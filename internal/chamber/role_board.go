package chamber

import (
	"context"
	"errors"
	"fmt"

	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
)

func (a *Actor) openBoard(ctx context.Context) (b *kanban.Board, err error) {
	err = a.through(ctx, func() error {
		b, err = kanban.Open(ctx, kanban.Options{Path: a.BoardPath(), Create: true, Heal: a.Heal})
		return err
	})
	return b, err
}

// desk is a board with the ledger of the one who works on it.
type desk struct {
	a      *Actor
	board  *kanban.Board
	ledger *Ledger
}

// boardRole makes cards and comments on them, one handle for its life, as the daemon has.
func boardRole(ctx context.Context, a *Actor) error {
	ledger, err := newLedger(a.Ledgers(), OnBoard, a.Tag)
	if err != nil {
		return err
	}
	defer ledger.close()
	d := &desk{a: a, ledger: ledger}
	if err := d.open(ctx); err != nil {
		return err
	}
	a.Say(Event{Event: "ready", Mode: d.board.File().Journal().Mode})
	for err == nil && ctx.Err() == nil {
		if err = d.card(context.WithoutCancel(ctx)); a.Heal && isLoss(sqlite.ClassOf(err)) {
			err = d.heal(ctx, err)
		}
		if err == nil {
			err = a.rest(ctx)
		}
	}
	return errors.Join(unlessStopped(ctx, err), d.close())
}

func (d *desk) open(ctx context.Context) (err error) {
	d.board, err = d.a.openBoard(ctx)
	return err
}

func (d *desk) close() error {
	if d.board == nil {
		return nil
	}
	err := d.board.Close()
	if err == nil {
		d.board = nil
	}
	return err
}

// heal opens the board anew after a loss; the open writes back what the capture holds.
func (d *desk) heal(ctx context.Context, cause error) error {
	return d.a.heal(ctx, d.board.File().Reason(), cause, d.close, func() (string, error) {
		if err := d.open(ctx); err != nil {
			return "", err
		}
		return d.board.File().Journal().Mode, nil
	})
}

// card makes a card with a comment. Each of the two is a token in its own right.
func (d *desk) card(ctx context.Context) error {
	var made kanban.Task
	err := d.put(ctx, "cards", func(token string) (err error) {
		made, err = d.board.Create(ctx, kanban.NewTask{Title: token + " a card", Body: filler[:500], Assignee: d.a.Tag})
		return err
	})
	if err == nil {
		err = d.put(ctx, "comments", func(token string) error {
			_, err := d.board.Comment(ctx, made.ID, d.a.Tag, token+" a remark")
			return err
		})
	}
	if err == nil {
		d.a.Say(Event{Event: "acked", Count: 2})
	}
	return err
}

// put writes one row with a token, and acknowledges it in the ledger once the board has said that it is durable.
func (d *desk) put(ctx context.Context, kind string, write func(token string) error) error {
	token, err := d.ledger.Intend(kind, 1)
	if err != nil {
		return err
	}
	if err := d.a.through(ctx, func() error { return write(token[0]) }); err != nil {
		return err
	}
	return d.ledger.Ack(token)
}

const countBoard = `SELECT (SELECT count(*) FROM tasks), (SELECT count(*) FROM task_comments), (SELECT count(*) FROM task_events)`

// watcherRole reads a board and opens and closes it by turns; no table of it ever shrinks.
func watcherRole(ctx context.Context, a *Actor) error {
	a.Say(Event{Event: "ready"})
	var seen [3]int64
	for i := 0; ctx.Err() == nil; i++ {
		now, err := a.countBoard(ctx)
		if err != nil {
			return unlessStopped(ctx, err)
		}
		for t := range now {
			if now[t] < seen[t] {
				return fmt.Errorf("%w: table %d of the board had %d, has %d", errShrunk, t, seen[t], now[t])
			}
		}
		seen = now
		a.Say(Event{Event: "cycled", Count: i + 1})
		if a.rest(ctx) != nil {
			return nil
		}
	}
	return nil
}

func (a *Actor) countBoard(ctx context.Context) (n [3]int64, err error) {
	b, err := a.openBoard(ctx)
	if err != nil {
		return n, err
	}
	err = a.through(ctx, func() error {
		if _, err := b.List(ctx, kanban.Filter{Limit: 20}); err != nil {
			return err
		}
		return b.File().Read(ctx, func(c *sqlite.Conn) error {
			_, err := c.Row(countBoard, nil, &n[0], &n[1], &n[2])
			return err
		})
	})
	return n, errors.Join(err, b.Close())
}
