package sessiondb

import (
	"cmp"
	"context"
	"time"

	"gatewayd/internal/sqlite"
)

// Window is the time that insights are about: from Since on and before Until. Days are those of Zone (nil: UTC). Price gives what the
// tokens of a model cost; nil, or false, is a price that nobody told.
type Window struct {
	Since, Until time.Time
	Zone         *time.Location
	Price        func(model string) (Price, bool)
}

// Insights is what happened in a window. Each logical message counts once, at the time of its first row, whatever compaction and rewinding
// made of it. What cannot be counted is in Odd and in nothing else.
type Insights struct {
	Since    time.Time        `json:"since"`
	Until    time.Time        `json:"until"`
	Sessions int64            `json:"sessions"` // begun in the window
	Turns    int64            `json:"turns"`
	Messages int64            `json:"messages"`
	Roles    map[string]int64 `json:"roles"`
	Sources  []Named          `json:"sources"` // of the sessions begun
	Tools    []ToolUse        `json:"tools"`   // the most called first
	Models   []ModelCost      `json:"models"`  // the last used first
	Tokens   Counts           `json:"tokens"`
	Cost     Cost             `json:"cost"`
	// Earlier counts the sums of Models that began before the window: the store keeps one sum for a session and a model, which counts as
	// a whole where it was last added to.
	Earlier int64 `json:"earlier"`
	Days    []Day `json:"days"` // with anything in them, in order
	Odd     []Odd `json:"odd"`
}

// Named is a name and how often it was met.
type Named struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// ToolUse is what became of the calls of a tool. A call failed by the rule of ResultFailed: an error, a refusal,
// cut short, or not run. Seconds
// are from the model's call to the stored result, waiting for approval included, over the Timed of the calls.
type ToolUse struct {
	Tool    string  `json:"tool"`
	Calls   int64   `json:"calls"`
	Failed  int64   `json:"failed"`
	Timed   int64   `json:"timed"`
	Seconds float64 `json:"seconds"`
}

// Day is one local day, as YYYY-MM-DD.
type Day struct {
	Day      string `json:"day"`
	Sessions int64  `json:"sessions"`
	Turns    int64  `json:"turns"`
	Messages int64  `json:"messages"`
}

// Odd is a kind of rows that were skipped: how many, and where one of them is.
type Odd struct {
	What    string `json:"what"`
	Count   int64  `json:"count"`
	Example string `json:"example"`
}

// DefaultDays is the window of whoever names none, and MaxDays the longest.
const (
	DefaultDays = 30
	MaxDays     = 3660
)

// WindowOf is a window of so many days of now's zone, today included, up to until; since, where it is given, is its beginning instead. A zero
// until is now.
func WindowOf(days int, since, until, now time.Time) (from, to time.Time) {
	if until.IsZero() {
		until = now.Add(time.Microsecond) // what happened just now is in it
	}
	if since.IsZero() {
		since = until.Add(-time.Microsecond).In(now.Location())
		since = time.Date(since.Year(), since.Month(), since.Day()+1-cmp.Or(days, DefaultDays), 0, 0, 0, 0, now.Location())
	}
	return since, until
}

// maxNames bounds the memory of a window: the names of tools, sources and models beyond so many count together, as those of (others).
const maxNames = 1000

const others = "(others)"

// Insights counts a window. It reads in steps of some thousand rows, each in a read of its own, so that it pins no log beside a daemon that
// writes, and takes as much memory for ten million rows as for ten thousand.
func (s *Store) Insights(ctx context.Context, w Window) (Insights, error) {
	if !w.Until.After(w.Since) {
		return Insights{}, errInvalid("window", "must end after it begins")
	}
	t := newTally(w)
	for _, read := range []func(context.Context, *tally) error{s.tallySessions, s.tallyMessages, s.tallyUsage} {
		if err := read(ctx, t); err != nil {
			return Insights{}, err
		}
	}
	return t.result(), nil
}

const (
	selectInsightSessions = `SELECT rowid, id, source, opened_at FROM sessions WHERE rowid > ? ORDER BY rowid LIMIT ?`

	// A result is judged by its kind, or by how it begins; the rest of a long one is not read. What a fork took from its parent is older
	// than the fork; it was said once. A fork whose parent is deleted has none, and holds what is left of it.
	selectInsightMessages = `SELECT id, session_id, turn_id, role, tool_name, substr(content, 1, 64), tool_calls IS NULL OR json_valid(tool_calls),
 tool_calls IS NOT NULL, created_at, kind FROM messages m WHERE id > ? AND origin_id = id
 AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = m.session_id AND s.parent IS NOT NULL AND m.created_at < s.opened_at) ORDER BY id LIMIT ?`

	selectInsightUsage = `SELECT session_id, model, provider, task, calls, prompt, completion, cached, cache_write, reasoning, first_at, last_at FROM usage
 WHERE (session_id, model, provider, task) > (?, ?, ?, ?) ORDER BY session_id, model, provider, task LIMIT ?`

	insightStep = 4000
)

func (s *Store) tallySessions(ctx context.Context, t *tally) error {
	last := int64(0)
	return s.inSteps(ctx, func() (string, []any) { return selectInsightSessions, []any{last, insightStep} }, func(r *sqlite.Row) {
		last = r.Int(0)
		t.session(r.Text(1), r.Text(2), r.Int(3))
	})
}

func (s *Store) tallyMessages(ctx context.Context, t *tally) error {
	last := int64(0)
	return s.inSteps(ctx, func() (string, []any) { return selectInsightMessages, []any{last, insightStep} }, func(r *sqlite.Row) {
		last = r.Int(0)
		t.message(spoken{
			id: last, session: r.Text(1), turn: text(r, 2), role: r.Text(3), tool: text(r, 4), begins: r.Text(5),
			valid: r.Bool(6), calls: r.Bool(7), at: r.Int(8), kind: text(r, 9),
		})
	})
}

func (s *Store) tallyUsage(ctx context.Context, t *tally) error {
	last := []any{"", "", "", ""}
	return s.inSteps(ctx, func() (string, []any) { return selectInsightUsage, append(last[:4:4], insightStep) }, func(r *sqlite.Row) {
		last = []any{r.Text(0), r.Text(1), r.Text(2), r.Text(3)}
		t.usage(r.Text(0), ModelUsage{Model: r.Text(1), Provider: r.Text(2), Task: r.Text(3), Counts: Counts{
			Calls: r.Int(4), Prompt: r.Int(5), Completion: r.Int(6), Cached: r.Int(7), CacheWrite: r.Int(8), Reasoning: r.Int(9),
		}}, r.Int(10), r.Int(11))
	})
}

// inSteps reads until a step is not full. A read that is tried anew begins where the last row was, so no row is counted twice.
func (s *Store) inSteps(ctx context.Context, next func() (sql string, args []any), row func(*sqlite.Row)) error {
	for n := insightStep; n >= insightStep; {
		n = 0
		err := s.file.Read(ctx, func(c *sqlite.Conn) error {
			sql, args := next()
			for r, err := range c.Query(sql, args...) {
				if err != nil {
					return err
				}
				n++
				row(r)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
