package sessiondb

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// Seen names the live rows on which a plan was made, so that the plan is carried out on these or not at all. Watermark
// is the last of them: what was appended since is not part of the plan. The zero value stands for an empty conversation.
type Seen struct {
	Watermark int64
	Digest    string
}

// See names rows that Transcript returned, all of them or a beginning.
func See(rows []Message) Seen {
	if len(rows) == 0 {
		return Seen{}
	}
	h := sha256.New()
	for _, m := range rows {
		fmt.Fprintf(h, "%d %s\n", m.ID, m.Digest())
	}
	return Seen{Watermark: rows[len(rows)-1].ID, Digest: hex.EncodeToString(h.Sum(nil))}
}

const selectLiveUpTo = `SELECT ` + messageColumns + ` FROM messages
 WHERE session_id = ?1 AND active = 1 AND compacted = 0 AND id > ?2 AND id <= ?3 ORDER BY id`

// seenRows reads the live rows up to the watermark; ErrStalePlan when they are no longer those that were seen.
func (s *Store) seenRows(c *sqlite.Conn, session string, seen Seen) ([]Message, error) {
	rows, err := s.queryMessages(c, nil, selectLiveUpTo, session, int64(0), seen.Watermark)
	if err != nil {
		return nil, fmt.Errorf("read live rows: %w", err)
	}
	if See(rows) != seen {
		return nil, errStalePlan(session)
	}
	return rows, nil
}

// rowsAfter reads the live rows that came after a watermark.
func (s *Store) rowsAfter(c *sqlite.Conn, session string, watermark int64) ([]Message, error) {
	rows, err := s.queryMessages(c, nil, selectLiveUpTo, session, watermark, int64(math.MaxInt64))
	if err != nil {
		return nil, fmt.Errorf("read rows that came meanwhile: %w", err)
	}
	return rows, nil
}

func errStalePlan(session string) error {
	return &problem.Error{
		Kind: problem.Conflict, Thing: sessionThing(session), What: "is no longer as it was when this was decided",
		Fate: "nothing was changed", Remedy: "read the conversation again and decide anew", Err: mark{ErrStalePlan},
	}
}
