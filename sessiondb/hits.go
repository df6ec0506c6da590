package sessiondb

import (
	"encoding/json"
	"fmt"

	"gatewayd/internal/sqlite"
)

// contextRunes is how much of a neighbour a hit shows.
const contextRunes = 200

// hitRows reads the chosen rows by one list of ids, however long it is.
const hitRows = `SELECT m.id, m.origin_id, m.uid, m.session_id, s.title, s.source, m.role, m.active, m.created_at
 FROM json_each(?) j CROSS JOIN messages m ON m.id = j.value CROSS JOIN sessions s ON s.id = m.session_id`

// finish turns the best candidates into hits, in their order.
func (s *Store) finish(c *sqlite.Conn, e expr, q Query, found *finding) ([]Hit, error) {
	if q.Sort == Relevance {
		rank(found.list, e)
	}
	best := found.arrange(q)
	if len(best) == 0 {
		return nil, nil
	}
	rows, err := s.readHits(c, best)
	if err != nil {
		return nil, err
	}
	hits := make([]Hit, 0, len(best))
	for _, one := range best {
		h := rows[one.id]
		if h.Snippet = one.snippet; h.Snippet == "" {
			h.Snippet = excerpt(one.content, e)
		}
		if q.Context {
			if err := neighbours(c, &h); err != nil {
				return nil, err
			}
		}
		hits = append(hits, h)
	}
	return hits, nil
}

func (s *Store) readHits(c *sqlite.Conn, best []candidate) (map[int64]Hit, error) {
	ids := make([]int64, len(best))
	for i, one := range best {
		ids[i] = one.id
	}
	list, _ := json.Marshal(ids) // numbers always marshal
	rows := make(map[int64]Hit, len(best))
	for r, err := range c.Query(hitRows, string(list)) {
		if err != nil {
			return nil, fmt.Errorf("read hits: %w", err)
		}
		rows[r.Int(0)] = Hit{
			MessageID: r.Int(0), OriginID: r.Int(1), UID: r.Text(2), SessionID: r.Text(3), Title: r.Text(4), Source: r.Text(5),
			Role: r.Text(6), Live: r.Bool(7), CreatedAt: moment(r.Int(8)),
		}
	}
	return rows, nil
}

const (
	rowBefore = `SELECT role || ': ' || substr(content, 1, ?3) FROM messages
 WHERE session_id = ?1 AND active = ?4 AND compacted = 1 - ?4 AND id < ?2 ORDER BY id DESC LIMIT 1`
	rowAfter = `SELECT role || ': ' || substr(content, 1, ?3) FROM messages
 WHERE session_id = ?1 AND active = ?4 AND compacted = 1 - ?4 AND id > ?2 ORDER BY id LIMIT 1`
)

// neighbours adds the rows before and after, of the same state, so that an index leads to them.
func neighbours(c *sqlite.Conn, h *Hit) error {
	args := []any{h.SessionID, h.MessageID, contextRunes, h.Live}
	if _, err := c.Row(rowBefore, args, &h.Before); err != nil {
		return err
	}
	_, err := c.Row(rowAfter, args, &h.After)
	return err
}
