package sessiondb

import (
	"cmp"
	"slices"

	"gatewayd/internal/sqlite"
)

// candidate is a row that matched.
type candidate struct {
	id, origin int64
	live       bool
	snippet    string
	content    string // only where relevance is judged
	score      float64
}

// finding collects candidates, one per logical message: a copy that compaction made is not found beside its original.
type finding struct {
	want int
	long int           // how many of list came from the scan of long rows, which come first and out of order
	best map[int64]int // origin → place in list
	list []candidate
}

func newFinding(q Query) *finding {
	f := &finding{want: q.Limit, best: map[int64]int{}}
	if q.Sort == Relevance {
		f.want = max(rankWindow, q.Limit)
	}
	return f
}

func (f *finding) full() bool { return len(f.list)-f.long >= f.want }

// room is how many rows the next query should give: some of them will be copies.
func (f *finding) room() int { return f.want - (len(f.list) - f.long) + 16 }

func (f *finding) add(c candidate) {
	at, known := f.best[c.origin]
	if !known {
		f.best[c.origin] = len(f.list)
		f.list = append(f.list, c)
		return
	}
	if old := f.list[at]; c.live && !old.live || c.live == old.live && c.id > old.id {
		f.list[at] = c
	}
}

// candidateColumns is what every query for candidates selects first.
const candidateColumns = `m.id, m.origin_id, m.active`

func scanCandidate(r *sqlite.Row) candidate {
	return candidate{id: r.Int(0), origin: r.Int(1), live: r.Bool(2)}
}

// visible is the part of each query that hides what was superseded and what the caller did not ask for.
func (q Query) visible() (sql string, args []any) {
	sql = ` AND (m.active = 1 OR m.compacted = 1) AND m.kind IS NOT '` + KindModelOnly + `'`
	if q.Session != "" {
		sql, args = sql+` AND m.session_id = ?`, append(args, q.Session)
	} else if !q.IncludeHidden {
		sql += ` AND NOT EXISTS(SELECT 1 FROM sessions h WHERE h.id = m.session_id AND h.hidden = 1)`
	}
	if q.Role != "" {
		sql, args = sql+` AND m.role = ?`, append(args, q.Role)
	}
	return sql, args
}

// direction is how ids run in the order of the search.
func (q Query) direction() string {
	if q.Sort == Oldest {
		return "ASC"
	}
	return "DESC"
}

// arrange puts the best first and cuts to the limit.
func (f *finding) arrange(q Query) []candidate {
	slices.SortStableFunc(f.list, func(a, b candidate) int {
		switch q.Sort {
		case Oldest:
			return cmp.Compare(a.origin, b.origin)
		case Relevance:
			return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.origin, a.origin))
		}
		return cmp.Compare(b.origin, a.origin)
	})
	return f.list[:min(q.Limit, len(f.list))]
}
