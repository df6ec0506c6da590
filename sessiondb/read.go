package sessiondb

import (
	"context"
	"math"
	"slices"
	"time"

	"gatewayd/internal/sqlite"
)

// MessageFilter chooses rows of a session. Without flags: live rows by id. IncludeCompacted shows each logical message
// once, at the place of its first row (OriginID), as its newest live copy, without what only the model is sent.
// IncludeInactive adds superseded rows, by id, copies and all; being for inspection, it alone gives Wire, which is between
// the store and the model.
//
// A page of any of the three costs what is on it, wherever in a history it lies: After goes forward from a place, Before
// backward. A place is an id, with IncludeCompacted an origin id: that of the last row forward, of the first backward.
type MessageFilter struct {
	IncludeCompacted, IncludeInactive bool
	After                             int64 // rows after this place
	Before                            int64 // the last Limit rows before this place; not together with After
	Limit                             int   // 0: all
	Latest                            bool  // the last Limit rows, still in rising order; not together with After
}

// inRange is what each part of a page's query has: a session, and the places between which it lies.
const (
	inState   = ` FROM messages WHERE session_id = ?1 AND active = `
	byID      = ` AND id > ?2 AND id < ?3`
	selectRow = `SELECT ` + messageColumns

	selectLive = selectRow + inState + `1 AND compacted = 0` + byID + ` ORDER BY id`

	// One ordered run of the index for each state, merged: a single range over the session would have to be sorted.
	selectAll = selectRow + inState + `1 AND compacted = 0` + byID +
		` UNION ALL ` + selectRow + inState + `0 AND compacted = 1` + byID +
		` UNION ALL ` + selectRow + inState + `0 AND compacted = 0` + byID + ` ORDER BY id`

	// Where visible rows stand: folded rows and copies by their origin, and live rows at their first place, which only
	// have to step over the live copies.
	selectShown = `SELECT origin_id, id, active FROM messages INDEXED BY messages_shown
 WHERE session_id = ?1 AND (compacted = 1 OR (active = 1 AND origin_id <> id)) AND origin_id > ?2 AND origin_id < ?3
 UNION ALL SELECT id, id, 1` + inState + `1 AND compacted = 0` + byID + ` AND origin_id = id ORDER BY 1`
)

// normal gives the places and the direction of a page.
func (f MessageFilter) normal() (low, high int64, down bool, err error) {
	if f.After > 0 && (f.Before > 0 || f.Latest) {
		return 0, 0, false, errInvalid("message filter", "after cannot be combined with before or latest")
	}
	low, high = f.After, math.MaxInt64
	if f.Before > 0 {
		high = f.Before
	}
	return low, high, f.Latest || f.Before > 0, nil
}

// Messages reads rows of a session in their order; an unknown session has none.
func (s *Store) Messages(ctx context.Context, session string, f MessageFilter) (out []Message, err error) {
	if _, _, _, err := f.normal(); err != nil {
		return nil, err
	}
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		out, err = s.page(c, session, f)
		return err
	})
	return out, err
}

func (s *Store) page(c *sqlite.Conn, session string, f MessageFilter) (out []Message, err error) {
	low, high, down, err := f.normal()
	limit, order := f.Limit, ""
	if limit <= 0 {
		limit = math.MaxInt
	}
	if down {
		order = " DESC"
	}
	switch {
	case err != nil:
	case f.IncludeInactive:
		out, err = s.queryMessages(c, nil, selectAll+order+` LIMIT ?4`, session, low, high, limit)
	case f.IncludeCompacted:
		out, err = s.shown(c, session, selectShown+order, low, high, limit)
	default:
		out, err = s.queryMessages(c, nil, selectLive+order+` LIMIT ?4`, session, low, high, limit)
	}
	if down {
		slices.Reverse(out)
	}
	if !f.IncludeInactive {
		for i := range out {
			out[i].Wire = ""
		}
	}
	return out, err
}

// shown reads one row for each place of a history, until there are enough.
func (s *Store) shown(c *sqlite.Conn, session, query string, low, high int64, limit int) (out []Message, err error) {
	place, best, live := int64(0), int64(0), false
	take := func() error {
		if best == 0 {
			return nil
		}
		m, err := s.messageByID(c, session, best)
		if err == nil && m.Kind != KindModelOnly {
			out = append(out, m)
		}
		return err
	}
	for r, err := range c.Query(query, session, low, high) {
		if err != nil {
			return nil, err
		}
		at, id, active := r.Int(0), r.Int(1), r.Bool(2)
		if at == place {
			if active && !live || active == live && id > best {
				best, live = id, active
			}
			continue
		}
		if err := take(); err != nil || len(out) == limit {
			return out, err
		}
		place, best, live = at, id, active
	}
	return out, take()
}

const selectTranscript = selectRow + inState + `1 AND compacted = 0 AND id > ?2 ORDER BY id`

// maxHint bounds what the session's counter, which is only a hint, makes Transcript reserve.
const maxHint = 4096

// Transcript is what a model is sent: the live rows by id, of one moment. The rows of conversations that spoke last are in memory and are
// given from there where the file proves that nothing happened to them. The caller may append to them and changes none.
func (s *Store) Transcript(ctx context.Context, session string) ([]Message, error) {
	old, now := s.kept.take(session), keptRows{}
	err := s.file.Read(ctx, func(c *sqlite.Conn) (err error) {
		now, err = s.readTranscript(c, session, old)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.kept.put(session, now, time.Now())
	return now.clipped(), nil
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
