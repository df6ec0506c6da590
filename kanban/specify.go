package kanban

import (
	"context"
	"strings"
)

// Specification turns a rough idea into a card. Nil leaves a field alone.
type Specification struct {
	Title, Body, Assignee *string
	Author                string
}

const specifyTask = `UPDATE tasks SET title = ?, body = ?, assignee = ? WHERE id = ?`

// Specify moves a card from triage to todo, and on if nothing holds it. Its event names what was changed.
func (b *Board) Specify(ctx context.Context, task string, s Specification) error {
	return b.write(ctx, "specify card", func(t *txn) error {
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return err
		}
		if card.Status != StatusTriage {
			return conflict(task, ErrConflict, "is %s, not in triage", card.Status)
		}
		return t.specify(card, s)
	})
}

func (t *txn) specify(card Task, s Specification) error {
	changed := []string{}
	set := func(name string, to *string, field *string) {
		if to != nil && *to != *field {
			*field, changed = *to, append(changed, name)
		}
	}
	title, body := trimmed(s.Title), trimmed(s.Body)
	if title != nil && *title == "" {
		return untitled(cardThing(card.ID))
	}
	was := card
	set("title", title, &card.Title)
	set("body", body, &card.Body)
	if s.Assignee != nil {
		name, err := parseHeir(*s.Assignee)
		if err != nil {
			return err
		}
		set("assignee", &name, &card.Assignee)
	}
	if err := t.place(was, StatusTodo, freshStart); err != nil {
		return err
	}
	if err := t.must("specify card", specifyTask, card.Title, opt(card.Body), opt(card.Assignee), card.ID); err != nil {
		return err
	}
	if err := t.event(card.ID, 0, "specified", payload{{"changed_fields", changed}}.say("author", s.Author)); err != nil {
		return err
	}
	return t.promoteIfFree(card.ID)
}

// trimmed is what a person wrote into a field, storable; nil stays nil.
func trimmed(s *string) *string {
	if s == nil {
		return nil
	}
	return new(clean(strings.TrimSpace(*s)))
}

func untitled(thing string) error {
	return invalidField("title", thing, "would have no title", "give it one")
}
