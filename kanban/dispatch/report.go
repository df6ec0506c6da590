package dispatch

import (
	"slices"
	"sync"
	"time"

	"gatewayd/kanban"
)

// Report says what one tick did.
type Report struct {
	At          time.Time      `json:"at"`
	Took        time.Duration  `json:"took_ns"`
	Boards      int            `json:"boards"`
	Unchanged   int            `json:"unchanged"` // boards nobody had to look at
	Reaped      []string       `json:"reaped"`    // keepers whose end was taken up
	Spawned     []Item         `json:"spawned"`
	Completed   []Item         `json:"completed"`
	Crashed     []Item         `json:"crashed"`
	TimedOut    []Item         `json:"timed_out"`
	Stale       []Item         `json:"stale"`
	Reclaimed   []Item         `json:"reclaimed"`
	RateLimited []Item         `json:"rate_limited"`
	Violations  []Item         `json:"protocol_violations"`
	SpawnFailed []Item         `json:"spawn_failed"`
	AutoBlocked []Item         `json:"auto_blocked"`
	Promoted    []Item         `json:"promoted"`
	Woken       []Item         `json:"woken"`     // scheduled cards whose time came
	Dismissed   []Item         `json:"dismissed"` // workers that were ended after their run
	Deferred    []Item         `json:"deferred"`
	Reconciled  []Item         `json:"reconciled"`
	Assigned    []Item         `json:"auto_assigned_default"`
	Adopted     []Item         `json:"adopted"`
	Held        map[Reason]int `json:"held"` // ready cards by the first gate that holds them
	Locked      []kanban.Slug  `json:"skipped_locked"`
	Disabled    []kanban.Slug  `json:"disabled"`
	Failed      []Failure      `json:"failed"`
}

// Item is one card of a report.
type Item struct {
	Board kanban.Slug  `json:"board"`
	Task  string       `json:"task_id"`
	Run   kanban.RunID `json:"run_id,omitempty"`
	Lane  string       `json:"assignee,omitempty"`
	PID   int          `json:"pid,omitempty"`
}

// Failure is a board whose tick broke off.
type Failure struct {
	Board kanban.Slug `json:"board"`
	Error string      `json:"error"`
}

// pass is a tick under way. Starting workers report into it from their own goroutines.
type pass struct {
	Report
	mu      sync.Mutex
	now     time.Time
	full    bool
	woken   map[kanban.Slug]bool
	locked  []*board
	started sync.WaitGroup
}

func newPass(now time.Time, full bool, woken map[kanban.Slug]bool) *pass {
	return &pass{Report: Report{At: now, Held: map[Reason]int{}}, now: now, full: full, woken: woken}
}

func (p *pass) dirty(slug kanban.Slug) { p.woken[slug] = true }

func (p *pass) fail(slug kanban.Slug, err error) {
	p.Failed = append(p.Failed, Failure{Board: slug, Error: err.Error()})
}

func (p *pass) note(list *[]Item, item Item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*list = append(*list, item)
}

// byOutcome is the list that a run's end belongs to.
func (p *pass) byOutcome(v Verdict) *[]Item {
	switch {
	case v.Complete:
		return &p.Completed
	case v.Protocol:
		return &p.Violations
	}
	switch v.Outcome {
	case kanban.OutcomeTimedOut:
		return &p.TimedOut
	case kanban.OutcomeStale:
		return &p.Stale
	case kanban.OutcomeRateLimited:
		return &p.RateLimited
	case kanban.OutcomeReclaimed:
		return &p.Reclaimed
	case kanban.OutcomeSpawnFailed:
		return &p.SpawnFailed
	}
	return &p.Crashed
}

// finish gives the report when the pass and the starts it began are over.
func (p *pass) finish() Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.Report
	r.Took = time.Since(p.now)
	slices.SortFunc(r.Spawned, func(a, b Item) int { return int(a.Run - b.Run) })
	for _, list := range []*[]Item{
		&r.Spawned, &r.Completed, &r.Crashed, &r.TimedOut, &r.Stale, &r.Reclaimed, &r.RateLimited, &r.Violations, &r.SpawnFailed, &r.AutoBlocked,
		&r.Promoted, &r.Woken, &r.Dismissed, &r.Deferred, &r.Reconciled, &r.Assigned, &r.Adopted,
	} {
		*list = append([]Item{}, *list...) // never null in JSON
	}
	r.Reaped, r.Locked, r.Disabled = append([]string{}, r.Reaped...), append([]kanban.Slug{}, r.Locked...), append([]kanban.Slug{}, r.Disabled...)
	r.Failed = append([]Failure{}, r.Failed...)
	return r
}
