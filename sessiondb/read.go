package sessiondb

import (
	"context"
	"slices"

	"gatewayd/internal/sqlite"
)

// MessageFilter chooses rows of a session. Without flags: live rows by id. IncludeCompacted shows each logical message
// once, at the place of its first row, as its newest live copy. IncludeInactive adds superseded rows, by id, copies and
// all (for inspection).
type MessageFilter struct {
	IncludeCompacted, IncludeInactive bool
	After                             int64 // rows with a greater id; not together with IncludeCompacted or Latest
	Limit                             int   // 0: all
	Latest                            bool  // the last Limit rows, still in rising order
}

const (
	selectLive = `SELECT ` + messageColumns + ` FROM messages WHERE session_id = ?1 AND active = 1 AND compacted = 0 AND id > ?2 ORDER BY id`
	selectAll  = `SELECT ` + messageColumns + ` FROM messages WHERE session_id = ?1 AND id > ?2 ORDER BY id`
	// The bare id of the aggregate comes from the row that holds the maximum: live before folded, then the newest.
	selectShown = `SELECT ` + messageColumns + ` FROM messages WHERE id IN (
  SELECT id FROM (SELECT id, max(active * 4611686018427387904 + id), origin_id FROM messages
   WHERE session_id = ?1 AND id > ?2 AND (active = 1 OR compacted = 1) GROUP BY origin_id ORDER BY origin_id`
)

func (f MessageFilter) query() (string, error) {
	if f.After > 0 && (f.IncludeCompacted || f.Latest) {
		return "", errInvalid("message filter", "after cannot be combined with include_compacted or latest")
	}
	order, tail := "", " LIMIT ?3"
	if f.Latest {
		order = " DESC"
	}
	switch {
	case f.IncludeInactive:
		return selectAll + order + tail, nil
	case f.IncludeCompacted:
		return selectShown + order + tail + `)) ORDER BY origin_id` + order, nil
	}
	return selectLive + order + tail, nil
}

// Messages reads rows of a session in their order; an unknown session has none.
func (s *Store) Messages(ctx context.Context, session string, f MessageFilter) ([]Message, error) {
	query, err := f.query()
	if err != nil {
		return nil, err
	}
	limit := f.Limit
	if limit <= 0 {
		limit = -1
	}
	var out []Message
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		out, err = s.queryMessages(c, nil, query, session, f.After, limit)
		return err
	})
	if f.Latest {
		slices.Reverse(out)
	}
	return out, err
}

// maxHint bounds what the session's counter, which is only a hint, makes Transcript reserve.
const maxHint = 4096

// Transcript is what a model is sent: the live rows by id.
func (s *Store) Transcript(ctx context.Context, session string) (out []Message, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		var hint int
		if _, err := c.Row(`SELECT message_count FROM sessions WHERE id = ?`, []any{session}, &hint); err != nil {
			return err
		}
		room := make([]Message, 0, min(max(hint, 0), maxHint))
		out, err = s.queryMessages(c, room, selectLive, session, int64(0))
		return err
	})
	return out, err
}

// queryMessages appends the rows of a query whose first argument is their session.
func (s *Store) queryMessages(c *sqlite.Conn, out []Message, query, session string, args ...any) ([]Message, error) {
	for r, err := range c.Query(query, append([]any{session}, args...)...) {
		if err != nil {
			return nil, err
		}
		out = append(out, s.scanMessage(r, session))
	}
	return out, nil
}
