package kanban

import (
	"context"
	"reflect"
	"slices"
	"strings"
)

// Patch is several changes of a card at once, as a form sends them. Nil leaves a field alone, "" clears it.
type Patch struct {
	Title, Body, Tenant                     *string
	Priority, MaxRuntimeSeconds, MaxRetries *int64 // 0 = no limit of its own
	Skills                                  *[]string
	Model                                   ModelChoice
	Assignee                                *string // "none" and "-" clear it too
	Reclaim                                 bool    // give a running card to another: its worker is ended first
	Status                                  *Status // where it is moved, see Move
	Reason                                  string  // of the move
	BlockReason                             string  // Reason, where it is moved to blocked
	Result, Summary                         *string // of a card that is done, or is moved there
	Metadata                                map[string]any
	Actor                                   string
}

// Patch makes all of the changes or none: first what the card says, then its model, then where it stands, then whose it is.
// Each is the verb's own rule (Edit, SetModel, Move or Complete, Assign or Reassign) and leaves the verb's own event. A
// status that the card has already is no change.
func (b *Board) Patch(ctx context.Context, task string, p Patch) (Released, error) {
	if p.empty() {
		return Released{}, invalid("the change of "+cardThing(task), "changes nothing", "name a field that is to be changed")
	}
	p.Reason, p.BlockReason = clean(strings.TrimSpace(p.Reason)), clean(strings.TrimSpace(p.BlockReason))
	if p.BlockReason != "" && deref(p.Status) == StatusBlocked {
		p.Reason = p.BlockReason
	}
	return b.release(ctx, "patch card", func(t *txn) (Released, error) { return t.patch(task, p) })
}

func (p Patch) empty() bool {
	p.Actor, p.Reason, p.BlockReason, p.Reclaim = "", "", "", false
	return reflect.ValueOf(p).IsZero()
}

func (t *txn) patch(task string, p Patch) (Released, error) {
	card, err := loadTask(t.Conn, task)
	if err != nil {
		return Released{}, err
	}
	for _, step := range []func(Task) error{
		func(c Task) error { return t.patchWords(c, p) },
		func(c Task) error { return t.chooseModel(c, p.Model) },
	} {
		if err := step(card); err != nil {
			return Released{}, err
		}
		if card, err = loadTask(t.Conn, task); err != nil {
			return Released{}, err
		}
	}
	return t.patchPlace(card, p)
}

// ends reports whether the result, summary and metadata are those of a completion that is part of the patch.
func (p Patch) ends(card Task) bool {
	return deref(p.Status) == StatusDone && card.Status != StatusDone
}

func (t *txn) patchWords(card Task, p Patch) error {
	e := Edit{
		Title: p.Title, Body: p.Body, Tenant: p.Tenant, Priority: p.Priority, MaxRuntimeSeconds: p.MaxRuntimeSeconds, MaxRetries: p.MaxRetries, Skills: p.Skills,
	}
	if !p.ends(card) {
		e.Result, e.Summary, e.Metadata = p.Result, p.Summary, p.Metadata
	}
	metadata, err := e.check(card.ID)
	if err != nil {
		return err
	}
	return t.edit(card, e, metadata)
}

// movement is the move with what a completion says, where it is one.
func (p Patch) movement() Movement {
	return Movement{Reason: p.Reason, Actor: p.Actor, Result: clean(strings.TrimSpace(deref(p.Result))), Summary: clean(strings.TrimSpace(deref(p.Summary))), Metadata: p.Metadata}
}

func (t *txn) patchPlace(card Task, p Patch) (r Released, err error) {
	r = Released{Status: card.Status, Now: true}
	heir := ""
	if p.Assignee != nil {
		if heir, err = parseHeir(*p.Assignee); err != nil {
			return r, err
		}
	}
	to := deref(p.Status)
	moves := to != "" && to != card.Status
	if moves {
		if err := movable(card, to); err != nil {
			return r, err
		}
	}
	stays := !slices.Contains([]Status{StatusBlocked, StatusDone, StatusArchived}, to)
	if card.Status == StatusRunning && stays && (moves || p.Assignee != nil && p.Reclaim) {
		return t.take(card, Stop{Reason: p.Reason, Actor: p.Actor, To: to, Assignee: heirWord(p.Assignee, heir)})
	}
	if moves {
		if r, err = t.move(card, to, p.movement()); err != nil {
			return r, err
		}
	}
	if p.Assignee == nil {
		return r, nil
	}
	if card, err = loadTask(t.Conn, card.ID); err != nil {
		return r, err
	}
	return r, t.assign(card, heir, "")
}

// heirWord is an assignee as a stop request has it: there, nobody has a word of its own.
func heirWord(given *string, name string) string {
	switch {
	case given == nil:
		return ""
	case name == "":
		return nobody
	}
	return name
}
