package sessiondb

import (
	"context"
	"fmt"
	"math"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// Bounds of a search.
const (
	defaultHits = 20
	maxHits     = 200
	rankWindow  = 200                    // relevance is judged among this many newest matches
	maxTail     = 64                     // rows above the mark that a search indexes for itself, at 0.12 ms each
	askFor      = 250 * time.Millisecond // how long a search waits for the indexer when there are more
	slowSearch  = time.Second
)

// Sort orders hits.
type Sort string

// The orders. Oldest and Newest go by the place of a message in its conversation's history.
const (
	Newest    Sort = "newest"
	Oldest    Sort = "oldest"
	Relevance Sort = "relevance"
)

// Query is a search. The zero Sort is Newest.
type Query struct {
	Text          string
	Session, Role string // only there; empty: everywhere
	Limit         int    // 0: 20; at most 200
	Sort          Sort
	IncludeHidden bool // hidden sessions too; a named Session is searched in any case
	Context       bool // fill Before and After of each hit
}

// Hit is one logical message that matched: its live row, or the newest folded one.
type Hit struct {
	MessageID int64     `json:"message_id"`
	OriginID  int64     `json:"origin_id"`
	UID       string    `json:"uid"`
	SessionID string    `json:"session_id"`
	Title     string    `json:"title,omitempty"`
	Source    string    `json:"source,omitempty"`
	Role      string    `json:"role"`
	Live      bool      `json:"live"`
	CreatedAt time.Time `json:"created_at"`
	Snippet   string    `json:"snippet"` // matches between >>> and <<<
	Before    string    `json:"before,omitempty"`
	After     string    `json:"after,omitempty"`
}

func (q Query) normal() (Query, error) {
	if q.Limit <= 0 {
		q.Limit = defaultHits
	}
	q.Limit = min(q.Limit, maxHits)
	switch q.Sort {
	case "":
		q.Sort = Newest
	case Newest, Oldest, Relevance:
	default:
		what := fmt.Sprintf("knows the orders newest, oldest and relevance, not %q", q.Sort)
		return q, &problem.Error{Kind: problem.Invalid, Thing: "search", What: what, Fate: "nothing was changed", Field: "sort"}
	}
	return q, nil
}

// Search finds visible messages (live or folded). Every row that was acknowledged before the call is considered: what
// the indexes do not hold yet is searched beside them. No text of a query is an error; one with nothing to look for finds
// nothing.
func (s *Store) Search(ctx context.Context, q Query) ([]Hit, error) {
	q, err := q.normal()
	if err != nil {
		return nil, err
	}
	e := parseQuery(q.Text)
	if len(e) == 0 {
		return nil, nil
	}
	began := time.Now()
	hits, err := s.searchRoutes(ctx, e, q)
	if took := time.Since(began); took >= slowSearch {
		s.log.Warn("search slow", "took", took, "hits", len(hits), "path", s.file.Path())
	}
	return hits, err
}

// searchRoutes asks the index that fits; what the words do not have may still be a part of a word.
func (s *Store) searchRoutes(ctx context.Context, e expr, q Query) ([]Hit, error) {
	ix, ok := e.route()
	if !ok || (ix == fragments && q.Role == "tool") {
		return s.scan(ctx, e, q)
	}
	hits, err := s.searchIndex(ctx, ix, e, q)
	if err == nil && len(hits) == 0 && ix == words && e.fragmentable() && q.Role != "tool" {
		return s.searchIndex(ctx, fragments, e, q)
	}
	return hits, err
}

// searchIndex searches one index and what lies above its mark. An index that proves to be damaged is marked stale, which
// puts every row above its mark, and the search begins anew.
func (s *Store) searchIndex(ctx context.Context, ix int, e expr, q Query) (hits []Hit, err error) {
	if s.ReadOnly() {
		return s.searchForeign(ctx, ix, e, q)
	}
	if err := s.shortenTail(ctx, ix); err != nil {
		return nil, err
	}
	err = s.withoutDamagedIndex(ctx, func() error {
		hits, err = s.searchOnce(ctx, ix, e, q)
		return err
	})
	return hits, err
}

// searchForeign searches a file that is only read. Its index may be another one than ours, or damaged: then the rows are
// scanned.
func (s *Store) searchForeign(ctx context.Context, ix int, e expr, q Query) ([]Hit, error) {
	hits, err := s.searchOnce(ctx, ix, e, q)
	if err == nil || ctx.Err() != nil {
		return hits, err
	}
	return s.scan(ctx, e, q)
}

// searchOnce searches within one snapshot where the tail is short. With a long one the rows above the mark are scanned
// first, piece by piece, so that a scan of the whole store does not keep the reader from everybody else.
func (s *Store) searchOnce(ctx context.Context, ix int, e expr, q Query) (hits []Hit, err error) {
	found := newFinding(q)
	far, mark, edits := false, int64(0), s.edits.Load() // before the snapshot: at worst the tail index is made new once too often
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		if err := s.scanLong(c, indexes[ix], e, q, found); err != nil {
			return err
		}
		var rows int
		if mark, rows, err = indexes[ix].behind(c, maxTail+1); err != nil {
			return err
		}
		if far = rows > maxTail; far {
			return nil
		}
		hits, err = s.snapshotHits(c, ix, e, q, mark, edits, found)
		return err
	})
	if err != nil || !far {
		return hits, err
	}
	scan := func() error { return s.scanRange(ctx, e, q, mark, math.MaxInt64, found) }
	held := func() error { return s.matchBelow(ctx, ix, e, q, mark, found) }
	if err := q.inOrder(found, scan, held); err != nil {
		return nil, err
	}
	return s.finishAlone(ctx, e, q, found)
}

// snapshotHits collects candidates in the order of the search: what lies above the mark is the newest.
func (s *Store) snapshotHits(c *sqlite.Conn, ix int, e expr, q Query, mark, edits int64, found *finding) ([]Hit, error) {
	tail := func() error { return s.searchTail(c, ix, e, q, mark, edits, found) }
	held := func() error { return s.matchRows(c, ix, e, q, mark, found) }
	if err := q.inOrder(found, tail, held); err != nil {
		return nil, err
	}
	return s.finish(c, e, q, found)
}

// inOrder runs the search of the newer and of the older rows, until there are enough.
func (q Query) inOrder(found *finding, newer, older func() error) error {
	if q.Sort == Oldest {
		newer, older = older, newer
	}
	if err := newer(); err != nil || found.full() {
		return err
	}
	return older()
}

// matchBelow searches the index up to a mark seen before. When the index went stale meanwhile, its rows are scanned.
func (s *Store) matchBelow(ctx context.Context, ix int, e expr, q Query, mark int64, found *finding) error {
	stale := false
	err := s.file.Read(ctx, func(c *sqlite.Conn) error {
		now, _, err := indexes[ix].readMark(c)
		if stale = now < mark; err != nil || stale {
			return err
		}
		return s.matchRows(c, ix, e, q, mark, found)
	})
	if err == nil && stale {
		return s.scanRange(ctx, e, q, 0, mark, found)
	}
	return err
}

// scan searches without an index.
func (s *Store) scan(ctx context.Context, e expr, q Query) ([]Hit, error) {
	found := newFinding(q)
	if err := s.scanRange(ctx, e, q, 0, math.MaxInt64, found); err != nil {
		return nil, err
	}
	return s.finishAlone(ctx, e, q, found)
}

func (s *Store) finishAlone(ctx context.Context, e expr, q Query, found *finding) (hits []Hit, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		hits, err = s.finish(c, e, q, found)
		return err
	})
	return hits, err
}

// shortenTail asks for chunks while too many rows lie above the mark, for a while.
func (s *Store) shortenTail(ctx context.Context, ix int) error {
	if !s.work.isRunning() && s.rebuilds(ctx, ix) {
		return ctx.Err()
	}
	wait, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	err := s.approach(wait, maxTail+1, ix)
	if err != nil && ctx.Err() == nil && wait.Err() == nil {
		s.log.Debug("search goes on with a long tail", "path", s.file.Path(), "error", err)
	}
	return ctx.Err()
}
