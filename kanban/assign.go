package kanban

import (
	"context"
	"slices"
	"strings"
	"unicode"
)

const maxAssignee = 128

// parseAssignee is the one rule for assignees: lower case, no leading @. Words that mean nobody are refused, since a card
// that waits for a lane called "none" waits for ever.
func parseAssignee(s string) (string, error) {
	name := strings.ToLower(strings.TrimPrefix(strings.TrimSpace(clean(s)), "@"))
	switch {
	case slices.Contains([]string{"none", "null", "nil", "-", "@"}, name), name == "" && strings.TrimSpace(s) != "":
		return "", invalidField("assignee", "assignee "+quote(s), "names nobody", "leave it out for a card without an assignee")
	case len(name) > maxAssignee, strings.ContainsFunc(name, unicode.IsControl):
		return "", invalidField("assignee", "assignee "+quote(s), "is not usable as a name", "use a lane or a person's name")
	}
	return name, nil
}

// parseHeir is parseAssignee where a card is taken from somebody: "none" and "-" say that nobody gets it.
func parseHeir(s string) (string, error) {
	if word := strings.ToLower(strings.TrimSpace(s)); word == "none" || word == "-" {
		return "", nil
	}
	return parseAssignee(s)
}

const (
	assignTask = `UPDATE tasks SET assignee = ?, consecutive_failures = 0, last_failure_error = NULL WHERE id = ?`
)

// Assign gives a card to a lane or a person; "", "none" and "-" take it from everybody. A change is a fresh start for the
// breaker. A running card is refused.
func (b *Board) Assign(ctx context.Context, task, assignee string) error {
	return b.AssignFrom(ctx, task, assignee, "")
}

// AssignFrom is Assign with a source for the event, such as "kanban.default_assignee".
func (b *Board) AssignFrom(ctx context.Context, task, assignee, source string) error {
	name, err := parseHeir(assignee)
	if err != nil {
		return err
	}
	return b.write(ctx, "assign card", func(t *txn) error {
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return err
		}
		return t.assign(card, name, source)
	})
}

func (t *txn) assign(card Task, name, source string) error {
	if card.Status == StatusRunning && card.ClaimLock != "" {
		return conflict(card.ID, ErrLiveClaim, "is running for %s", quote(card.Assignee))
	}
	return t.hand(card, name, source)
}

// hand gives a card that nobody runs to another, and says so where it is another.
func (t *txn) hand(card Task, name, source string) error {
	if card.Assignee == name {
		return nil
	}
	if err := t.must("assign card", assignTask, opt(name), card.ID); err != nil {
		return err
	}
	p := payload{{"assignee", opt(name)}, {"from", opt(card.Assignee)}}
	return t.event(card.ID, 0, "assigned", p.say("source", source))
}
