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
		return "", invalid("assignee "+quote(s), "names nobody", "leave it out for a card without an assignee")
	case len(name) > maxAssignee, strings.ContainsFunc(name, unicode.IsControl):
		return "", invalid("assignee "+quote(s), "is not usable as a name", "use a lane or a person's name")
	}
	return name, nil
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
	if s := strings.ToLower(strings.TrimSpace(assignee)); s == "none" || s == "-" {
		assignee = ""
	}
	name, err := parseAssignee(assignee)
	if err != nil {
		return err
	}
	return b.write(ctx, "assign card", func(t *txn) error {
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return err
		}
		if card.Status == StatusRunning && card.ClaimLock != "" {
			return conflict(task, ErrLiveClaim, "is running for %s", quote(card.Assignee))
		}
		if card.Assignee == name {
			return nil
		}
		if err := t.must("assign card", assignTask, opt(name), task); err != nil {
			return err
		}
		p := payload{{"assignee", opt(name)}, {"from", opt(card.Assignee)}}
		if source != "" {
			p = append(p, field{"source", source})
		}
		return t.event(task, 0, "assigned", p)
	})
}
