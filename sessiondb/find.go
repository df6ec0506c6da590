package sessiondb

import (
	"context"
	"strings"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// maxFound is how many sessions Find gives: enough to say that a name is not clear.
const maxFound = 20

// The ways in which a text may name a session, the surest first.
var naming = []string{
	`id = ?1`, `title = ?1`, `lower(title) = lower(?1)`, `substr(id, 1, length(?1)) = ?1`, `substr(lower(title), 1, length(?1)) = lower(?1)`,
}

// Find gives the sessions that a person may mean by a text, the last active first: by id, by title, by the beginning of
// either. Only the surest way that finds any counts. At most 20.
func (s *Store) Find(ctx context.Context, text string) (out []Session, err error) {
	if text = strings.TrimSpace(text); text == "" {
		return nil, nil
	}
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		for _, way := range naming {
			out, err = s.querySessions(c, `SELECT `+sessionColumns+` FROM sessions WHERE `+way+` ORDER BY last_active DESC, id DESC LIMIT ?2`, text, maxFound)
			if err != nil || len(out) > 0 {
				return err
			}
		}
		return nil
	})
	return out, err
}

// takenTitle refuses a title that another session has: two of one name could not be told apart by it.
func takenTitle(c *sqlite.Conn, id, title string) error {
	other := ""
	found, err := c.Row(`SELECT id FROM sessions WHERE title = ? AND id <> ? LIMIT 1`, []any{title, id}, &other)
	if err != nil || !found || title == "" || mutation.On("titles-are-not-compared") {
		return err
	}
	return &problem.Error{
		Kind: problem.Conflict, Thing: "title " + title, What: "is another session's: " + other, Fate: "nothing was changed",
		Remedy: "choose another, or rename that session first", Field: "title",
	}
}
