package sessiondb

import (
	"cmp"
	"context"
	"slices"

	"gatewayd/internal/sqlite"
)

const lastResults = `SELECT origin_id, content FROM messages
 WHERE session_id = ?1 AND active = ?2 AND compacted = ?3 AND role = 'tool' AND tool_name = ?4 ORDER BY id DESC LIMIT ?5`

// LastResults gives the contents of the newest results of a tool in a session, newest first: live ones and folded ones, each once,
// and none that was superseded. It reads the session's rows backward until it has enough.
func (s *Store) LastResults(ctx context.Context, session, tool string, limit int) ([]string, error) {
	type result struct {
		origin  int64
		content string
	}
	var found []result
	err := s.file.Read(ctx, func(c *sqlite.Conn) error {
		found = nil
		for _, state := range [][2]int{{1, 0}, {0, 1}} {
			for r, err := range c.Query(lastResults, session, state[0], state[1], tool, limit) {
				if err != nil {
					return err
				}
				found = append(found, result{r.Int(0), r.Text(1)})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, b result) int { return cmp.Compare(b.origin, a.origin) })
	found = slices.CompactFunc(found, func(a, b result) bool { return a.origin == b.origin })
	contents := make([]string, 0, limit)
	for _, r := range found[:min(limit, len(found))] {
		contents = append(contents, r.content)
	}
	return contents, nil
}
