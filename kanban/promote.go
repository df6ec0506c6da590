package kanban

import (
	"context"
	"strings"

	"gatewayd/internal/sqlite"
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

// Promotion is what promoting a card by hand does to it.
type Promotion struct {
	To       Status   `json:"to"`
	Unlinked []string `json:"unlinked"` // open parents that it no longer waits for, by force
}

// WouldPromote says what PromoteByHand would do now, or gives its refusal. It changes nothing.
func (b *Board) WouldPromote(ctx context.Context, task string, force bool) (Promotion, error) {
	var p Promotion
	err := b.read(ctx, func(c *sqlite.Conn) error {
		card, err := loadTask(c, task)
		if err == nil {
			p, err = promotion(c, card, force)
		}
		return err
	})
	return p, err
}

func promotion(c *sqlite.Conn, card Task, force bool) (Promotion, error) {
	if card.Status != StatusTodo && card.Status != StatusBlocked {
		return Promotion{}, conflict(card.ID, ErrConflict, "is %s, neither todo nor blocked", card.Status)
	}
	open, err := openParents(c, card.ID)
	if err != nil {
		return Promotion{}, err
	}
	if len(open) > 0 && !force {
		return Promotion{}, conflict(card.ID, ErrParentsOpen, "waits for %s", joinSome(open, 5))
	}
	to, err := resumeStatus(c, card.ID)
	return Promotion{To: to, Unlinked: append([]string{}, open...)}, err
}

func (t *txn) promoteByHand(card Task, reason, actor string, force bool) error {
	will, err := promotion(t.Conn, card, force)
	if err != nil {
		return err
	}
	to, open := will.To, will.Unlinked
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
