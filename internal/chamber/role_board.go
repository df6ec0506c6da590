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
		b, err = kanban.Open(ctx, kanban.Options{Path: a.BoardPath(), Create: true})
		return err
	})
	return b, err
}

// boardRole makes cards and comments on them, one handle for its life, as the daemon has.
func boardRole(ctx context.Context, a *Actor) error {
	ledger, err := newLedger(a.Ledgers(), OnBoard, a.Tag)
	if err != nil {
		return err
	}
	defer ledger.close()
	b, err := a.openBoard(ctx)
	if err != nil {
		return err
	}
	a.Say(Event{Event: "ready", Mode: b.File().Journal().Mode})
	for err == nil && ctx.Err() == nil {
		if err = a.card(context.WithoutCancel(ctx), b, ledger); err == nil {
			err = a.rest(ctx)
		}
	}
	return errors.Join(unlessStopped(ctx, err), b.Close())
}

// card makes a card with a comment. Each of the two is a token in its own right.
func (a *Actor) card(ctx context.Context, b *kanban.Board, ledger *Ledger) error {
	title, err := ledger.Intend("cards", 1)
	if err != nil {
		return err
	}
	var made kanban.Task
	err = a.through(ctx, func() error {
		made, err = b.Create(ctx, kanban.NewTask{Title: title[0] + " a card", Body: filler[:500], Assignee: a.Tag})
		return err
	})
	if err != nil {
		return err
	}
	if err := ledger.Ack(title); err != nil {
		return err
	}
	note, err := ledger.Intend("comments", 1)
	if err != nil {
		return err
	}
	err = a.through(ctx, func() error { _, err := b.Comment(ctx, made.ID, a.Tag, note[0]+" a remark"); return err })
	if err != nil {
		return err
	}
	if err := ledger.Ack(note); err != nil {
		return err
	}
	a.Say(Event{Event: "acked", Count: 2})
	return nil
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
