package kanban

import (
	"context"
	"strings"
)

// PromoteByHand lets a todo or blocked card go on now, to ready, or to review where it came from there. It is a fresh start
// for the breaker. With open parents it is refused; with force the links to them are taken away, since nobody can claim
// a card while one of them is open.
func (b *Board) PromoteByHand(ctx context.Context, task, reason, actor string, force bool) error {
	return b.write(ctx, "promote card", func(t *txn) error {
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return err
		}
		return t.promoteByHand(card, reason, actor, force)
	})
}

func (t *txn) promoteByHand(card Task, reason, actor string, force bool) error {
	if card.Status != StatusTodo && card.Status != StatusBlocked {
		return conflict(card.ID, ErrConflict, "is %s, neither todo nor blocked", card.Status)
	}
	open, err := openParents(t.Conn, card.ID)
	if err != nil {
		return err
	}
	if len(open) > 0 && !force {
		return conflict(card.ID, ErrParentsOpen, "waits for %s", joinSome(open, 5))
	}
	to, err := t.resumeStatus(card.ID)
	if err != nil {
		return err
	}
	for _, parent := range open {
		if err := t.unlink(parent, card.ID); err != nil {
			return err
		}
	}
	if err := t.place(card, to, freshStart); err != nil {
		return err
	}
	p := payload{{"actor", opt(clean(strings.TrimSpace(actor)))}, {"reason", opt(clean(strings.TrimSpace(reason)))}}
	if len(open) > 0 {
		p = append(p, field{"forced", true})
	}
	if to != StatusReady {
		p = append(p, field{"status", to})
	}
	return t.event(card.ID, 0, "promoted_manual", p)
}
