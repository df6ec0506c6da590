package kanban

import (
	"context"
	"slices"
	"strings"
)

// Movement says why a card is moved and by whom. Result, Summary and Metadata are what a move to done has to show; it needs
// none.
type Movement struct {
	Reason, Actor   string
	Result, Summary string
	Metadata        map[string]any
}

func (m Movement) payload() payload {
	return payload{}.say("reason", m.Reason).say("actor", m.Actor)
}

// Moves lists the statuses to which a person may move a card: running never, archived always. A status that this package
// does not know leads nowhere else.
func Moves(from Status) []Status {
	to := map[Status][]Status{
		StatusTriage:    {StatusTodo, StatusReady},
		StatusTodo:      {StatusTriage, StatusScheduled, StatusReady},
		StatusScheduled: {StatusTriage, StatusTodo, StatusReady},
		StatusReady:     {StatusTriage, StatusTodo, StatusScheduled, StatusBlocked, StatusReview, StatusDone},
		StatusRunning:   {StatusTriage, StatusTodo, StatusScheduled, StatusReady, StatusBlocked, StatusReview, StatusDone},
		StatusBlocked:   {StatusTriage, StatusTodo, StatusScheduled, StatusReady, StatusDone},
		StatusReview:    {StatusTriage, StatusTodo, StatusReady, StatusDone},
		StatusDone:      {StatusTriage, StatusTodo, StatusReady},
	}[from]
	if from == StatusArchived {
		return nil
	}
	return append(to, StatusArchived)
}

// Move puts a card where a person drags it. It is the verb of that place where there is one (complete, block, archive,
// unblock, promote, schedule, request a review), and says `status` where there is none. A card that is moved to todo goes
// on at once if nothing holds it. A running card is taken from its worker, see Released; only blocked, done and archived
// take it at once. Reopening a finished card puts back what was built on it.
func (b *Board) Move(ctx context.Context, task string, to Status, m Movement) (Released, error) {
	m.Reason, m.Actor = clean(strings.TrimSpace(m.Reason)), clean(strings.TrimSpace(m.Actor))
	return b.release(ctx, "move card", func(t *txn) (Released, error) {
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return Released{}, err
		}
		if err := movable(card, to); err != nil {
			return Released{}, err
		}
		return t.move(card, to, m)
	})
}

func movable(card Task, to Status) error {
	allowed := Moves(card.Status)
	if slices.Contains(allowed, to) {
		return nil
	}
	if card.Status == to {
		return conflict(card.ID, ErrConflict, "is %s already", to)
	}
	if !slices.Contains(Statuses(), to) {
		return invalidField("status", "status "+quote(string(to)), "is not known", "use one of "+joinStatuses(allowed))
	}
	if len(allowed) == 0 {
		return conflict(card.ID, ErrConflict, "is %s and stays so", card.Status)
	}
	return conflict(card.ID, ErrConflict, "is %s and cannot be moved to %s, only to %s", card.Status, to, joinStatuses(allowed))
}

func (t *txn) move(card Task, to Status, m Movement) (Released, error) {
	ends := slices.Contains([]Status{StatusBlocked, StatusDone, StatusArchived}, to)
	if card.Status == StatusRunning && !ends {
		return t.take(card, Stop{Reason: m.Reason, Actor: m.Actor, To: to})
	}
	r := Released{Status: to, Now: true}
	if card.Status == StatusRunning && livesHere(card) {
		r.Worker = card.WorkerPID
	}
	err := t.moveBy(card, to, m, &r)
	if err != nil {
		return Released{}, err
	}
	now, err := loadTask(t.Conn, card.ID)
	r.Status = now.Status
	return r, err
}

// moveBy finds the verb.
func (t *txn) moveBy(card Task, to Status, m Movement, r *Released) (err error) {
	switch {
	case to == StatusArchived:
		return t.archive(card, m)
	case to == StatusDone:
		return t.completeByHand(card, m)
	case to == StatusBlocked:
		return t.block(card.ID, m.block())
	case to == StatusScheduled:
		_, err = t.schedule(card, Schedule{Reason: m.words("scheduled by hand")}, rule{})
		return err
	case to == StatusReview:
		return t.requestReview(card, Review{Summary: m.Reason}, "", staged{})
	case to == StatusReady && card.Status == StatusTodo:
		return t.promoteByHand(card, m.Reason, m.Actor, false)
	case to == StatusReady && (card.Status == StatusBlocked || card.Status == StatusScheduled):
		_, err = t.unblock(card, m.Reason)
		return err
	}
	r.Descendants, err = t.reopen(card, to, m)
	return err
}

// block is the move as a block: only words that were given become a comment.
func (m Movement) block() Block {
	block := Block{Reason: m.words("blocked by hand")}
	if m.Reason != "" {
		block.By = m.Actor
	}
	return block
}

func (m Movement) words(otherwise string) string {
	if m.Reason != "" {
		return m.Reason
	}
	return otherwise
}

func (t *txn) completeByHand(card Task, m Movement) error {
	metadata, err := encodeMap(m.Metadata)
	if err != nil {
		return invalidField("metadata", "metadata of "+cardThing(card.ID), err.Error(), "send a plain JSON object")
	}
	done := Completion{Force: true, Result: m.Result, Summary: m.Summary, Metadata: m.Metadata}
	if done.words() == "" {
		done.Summary = m.words("moved to done by hand")
	}
	refused, err := t.complete(card.ID, done, metadata, staged{})
	if err == nil {
		err = refused
	}
	return err
}

// reopen puts a card back to an earlier status: a fresh start, and after a review it is its implementer's again. A
// finished card takes what was built on it along.
func (t *txn) reopen(card Task, to Status, m Movement) (descendants []string, err error) {
	if to == StatusReady {
		if err := t.parentsDone(card.ID); err != nil {
			return nil, err
		}
	}
	if err := t.place(card, to, freshStart); err != nil {
		return nil, err
	}
	heir, err := t.implementer(card)
	if err != nil {
		return nil, err
	}
	if heir != "" {
		if err := t.hand(card, heir, ""); err != nil {
			return nil, err
		}
	}
	if err := t.event(card.ID, 0, "status", statusPayload(to, card.Status, m)); err != nil {
		return nil, err
	}
	if card.Status == StatusDone {
		if descendants, err = t.invalidate(card); err != nil {
			return nil, err
		}
	}
	return descendants, t.promoteIfFree(card.ID)
}

func (t *txn) parentsDone(task string) error {
	open, err := openParents(t.Conn, task)
	if err == nil && len(open) > 0 {
		err = conflict(task, ErrParentsOpen, "waits for %s", joinSome(open, 5))
	}
	return err
}

func statusPayload(to, from Status, m Movement) payload {
	return append(payload{{"status", to}, {"from", from}}, m.payload()...)
}
