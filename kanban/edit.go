package kanban

import (
	"context"
	"reflect"
	"slices"
)

// Edit changes what a card says. Nil leaves a field alone, "" clears it. Result, Summary and Metadata are those of a
// finished card.
type Edit struct {
	Title, Body, Tenant                     *string
	Priority, MaxRuntimeSeconds, MaxRetries *int64 // 0 = no limit of its own
	Skills                                  *[]string
	Result, Summary                         *string
	Metadata                                map[string]any
}

const (
	editTask = `UPDATE tasks SET title = ?, body = ?, tenant = ?, priority = ?, max_runtime_seconds = ?, max_retries = ?, skills = ?, result = ?
WHERE id = ?`
	editRun = `UPDATE task_runs SET summary = COALESCE(?, summary), metadata = COALESCE(?, metadata) WHERE id =
    (SELECT MAX(id) FROM task_runs WHERE task_id = ? AND outcome = 'completed')`
)

// Edit changes a card in any status. What changes nothing leaves no event. A new title or body is a fresh start for the
// breaker of a card that nobody runs.
func (b *Board) Edit(ctx context.Context, task string, e Edit) error {
	if reflect.ValueOf(e).IsZero() {
		return invalid("the change of "+cardThing(task), "changes nothing", "name a field that is to be changed")
	}
	metadata, err := e.check(task)
	if err != nil {
		return err
	}
	return b.write(ctx, "edit card", func(t *txn) error {
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return err
		}
		return t.edit(card, e, metadata)
	})
}

func (e *Edit) check(task string) (metadata string, err error) {
	for _, field := range []**string{&e.Title, &e.Body, &e.Tenant, &e.Result, &e.Summary} {
		*field = trimmed(*field)
	}
	switch {
	case e.Title != nil && *e.Title == "":
		return "", untitled(cardThing(task))
	case e.MaxRuntimeSeconds != nil && *e.MaxRuntimeSeconds < 0:
		return "", invalidField("max_runtime_seconds", "max_runtime_seconds of "+cardThing(task), "is negative", "0 takes the limit away")
	case e.MaxRetries != nil && *e.MaxRetries < 0:
		return "", invalidField("max_retries", "max_retries of "+cardThing(task), "is negative", "0 takes the limit away")
	}
	if e.Skills != nil {
		skills, err := parseSkills(*e.Skills)
		if err != nil {
			return "", err
		}
		e.Skills = &skills
	}
	if metadata, err = encodeMap(e.Metadata); err != nil {
		return "", invalidField("metadata", "metadata of "+cardThing(task), err.Error(), "send a plain JSON object")
	}
	return metadata, nil
}

func (t *txn) edit(card Task, e Edit, metadata string) error {
	after, fields := e.apply(card)
	if e.Result != nil || e.Summary != nil || metadata != "" {
		if card.Status != StatusDone {
			return conflict(card.ID, ErrConflict, "is %s: only a finished card has a result to be edited", card.Status)
		}
		if e.Summary != nil {
			fields = append(fields, "summary")
		}
		if metadata != "" {
			fields = append(fields, "metadata")
		}
	}
	if len(fields) == 0 && after.Priority == card.Priority {
		return nil
	}
	if err := t.store(after, e, metadata); err != nil {
		return err
	}
	if spec := slices.Contains(fields, "title") || slices.Contains(fields, "body"); spec && card.Status != StatusRunning {
		if err := t.must("edit card", freshenTask, card.ID); err != nil {
			return err
		}
	}
	if len(fields) > 0 {
		if err := t.event(card.ID, 0, "edited", payload{{"fields", fields}}); err != nil {
			return err
		}
	}
	if after.Priority == card.Priority {
		return nil
	}
	return t.event(card.ID, 0, "reprioritized", payload{{"priority", after.Priority}})
}

func (t *txn) store(after Task, e Edit, metadata string) error {
	skills, err := encodeSkills(after.Skills)
	if err != nil {
		return err
	}
	err = t.must("edit card", editTask, after.Title, opt(after.Body), opt(after.Tenant), after.Priority, opt(after.MaxRuntimeSeconds), after.MaxRetries,
		opt(skills), opt(after.Result), after.ID)
	if err != nil || e.Summary == nil && metadata == "" {
		return err
	}
	_, err = t.run("edit run", editRun, e.Summary, opt(metadata), after.ID)
	return err
}

// apply gives the card as it will be and the names of what differs, but for the priority, which has an event of its own.
func (e Edit) apply(card Task) (Task, []string) {
	var fields []string
	text := func(name string, to *string, at *string) {
		if to != nil && *to != *at {
			*at, fields = *to, append(fields, name)
		}
	}
	text("title", e.Title, &card.Title)
	text("body", e.Body, &card.Body)
	text("tenant", e.Tenant, &card.Tenant)
	text("result", e.Result, &card.Result)
	if e.Priority != nil {
		card.Priority = *e.Priority
	}
	if n := e.MaxRuntimeSeconds; n != nil && *n != card.MaxRuntimeSeconds {
		card.MaxRuntimeSeconds, fields = *n, append(fields, "max_runtime_seconds")
	}
	if n := e.MaxRetries; n != nil && deref(card.MaxRetries) != *n {
		card.MaxRetries, fields = opt(*n), append(fields, "max_retries")
	}
	if e.Skills != nil && !slices.Equal(*e.Skills, card.Skills) {
		card.Skills, fields = *e.Skills, append(fields, "skills")
	}
	return card, fields
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
