package sessiondb

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"gatewayd/internal/sqlite"
)

// A list is bounded: nobody reads more on a screen, and a caller that pages asks again.
const (
	defaultListLimit = 50
	maxListLimit     = 500
)

// ListFilter chooses sessions; the zero value gives the 50 that were active last, without hidden and archived ones, and of a conversation that
// compaction continued in others the last alone.
type ListFilter struct {
	Sources         []string // any of these; empty: all
	IncludeHidden   bool
	IncludeArchived bool
	IncludeChildren bool // also each segment that another one continues
	OpenOnly        bool // without an end stamp
	NonEmpty        bool // with at least one row, whatever the counter says
	Limit           int  // 0: 50; at most 500

	// BeforeActive and BeforeID are those of the last session of the page before.
	BeforeActive time.Time
	BeforeID     string
}

const listFilter = ` AND (?3 IS NULL OR source IN (SELECT value FROM json_each(?3))) AND (?4 OR hidden = 0) AND (?5 OR archived = 0)
 AND (NOT ?6 OR ended_at IS NULL) AND (NOT ?7 OR EXISTS(SELECT 1 FROM messages WHERE session_id = sessions.id))
 AND (?9 OR end_reason IS NOT '` + EndCompression + `' OR NOT EXISTS(SELECT 1 FROM sessions k WHERE k.parent = sessions.id))`

const (
	listRecent = `SELECT ` + sessionColumns + ` FROM sessions WHERE last_active BETWEEN 1 AND ?1 AND (last_active, id) < (?1, ?2)` + listFilter +
		` ORDER BY last_active DESC, id DESC LIMIT ?8`
	listOdd = `SELECT ` + sessionColumns + ` FROM sessions WHERE (last_active < 1 OR last_active > ?1) AND ?2 IS NOT NULL` + listFilter + ` LIMIT ?8`

	lastSaneRow = `SELECT max(created_at) FROM messages WHERE session_id = ?1 AND typeof(created_at) = 'integer' AND created_at BETWEEN 1 AND ?2`
)

// Sessions lists sessions, the last active first. One whose time is no time is listed at the place of its last row.
func (s *Store) Sessions(ctx context.Context, f ListFilter) ([]Session, error) {
	limit := f.Limit
	if limit <= 0 {
		limit = defaultListLimit
	}
	limit = min(limit, maxListLimit)
	before, id := int64(maxStamp), "\U0010FFFF"
	if !f.BeforeActive.IsZero() {
		before, id = stampOr(f.BeforeActive, maxStamp), f.BeforeID
	}
	var out []Session
	err := s.file.Read(ctx, func(c *sqlite.Conn) error {
		recent, err := s.querySessions(c, listRecent, f.args(before, id, limit)...)
		if err != nil {
			return err
		}
		odd, err := s.odd(c, f, before, id)
		out = append(recent, odd...)
		return err
	})
	slices.SortFunc(out, func(a, b Session) int {
		return cmp.Or(b.LastActive.Compare(a.LastActive), cmp.Compare(b.ID, a.ID))
	})
	return out[:min(limit, len(out))], err
}

func (f ListFilter) args(before int64, id string, limit int) []any {
	var sources any
	if len(f.Sources) > 0 {
		list, _ := json.Marshal(f.Sources) // strings always marshal
		sources = string(list)
	}
	return []any{before, id, sources, f.IncludeHidden, f.IncludeArchived, f.OpenOnly, f.NonEmpty, limit, f.IncludeChildren}
}

// odd gives the sessions whose last_active is absurd, with the freshest time that their rows or their start still tell.
func (s *Store) odd(c *sqlite.Conn, f ListFilter, before int64, id string) ([]Session, error) {
	got, err := s.querySessions(c, listOdd, f.args(maxStamp, id, maxListLimit)...)
	if err != nil {
		return nil, err
	}
	out := got[:0]
	for _, one := range got {
		var last *int64
		if _, err := c.Row(lastSaneRow, []any{one.ID, maxStamp}, &last); err != nil {
			return nil, err
		}
		one.LastActive = one.OpenedAt
		if last != nil && moment(*last).After(one.OpenedAt) {
			one.LastActive = moment(*last)
		}
		if at := one.LastActive.UnixMicro(); at < before || (at == before && one.ID < id) {
			out = append(out, one)
		}
	}
	return out, nil
}

func (s *Store) querySessions(c *sqlite.Conn, query string, args ...any) ([]Session, error) {
	var out []Session
	for r, err := range c.Query(query, args...) {
		if err != nil {
			return nil, err
		}
		out = append(out, s.scanSession(r))
	}
	return out, nil
}
