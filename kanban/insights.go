package kanban

import (
	"context"
	"time"

	"gatewayd/internal/sqlite"
)

// Insights is what happened on a board in a window.
type Insights struct {
	Board   Slug             `json:"board"`
	Made    int64            `json:"made"` // cards
	Done    int64            `json:"done"` // cards completed; archived later or not
	Runs    int64            `json:"runs"` // begun
	Ends    map[string]int64 `json:"ends"` // of these runs, by outcome; "running" has none yet
	Seconds float64          `json:"seconds"`
	Odd     int64            `json:"odd"` // rows whose times are none, or lie in the future, or end before they begin: skipped
	Trouble string           `json:"trouble,omitempty"`
}

// A time that counts is a number, above 0 and not after ?3; columns of older programs are of any type.
const (
	insightCards = `SELECT
 COALESCE(SUM(typeof(created_at) = 'integer' AND created_at BETWEEN 1 AND ?3 AND created_at >= ?1 AND created_at < ?2), 0),
 COALESCE(SUM(typeof(completed_at) = 'integer' AND completed_at BETWEEN 1 AND ?3 AND completed_at >= ?1 AND completed_at < ?2 AND status IN ('done', 'archived')), 0),
 COALESCE(SUM(NOT (typeof(created_at) = 'integer' AND created_at BETWEEN 1 AND ?3) OR NOT (completed_at IS NULL OR typeof(completed_at) = 'integer' AND completed_at BETWEEN 1 AND ?3)), 0)
 FROM tasks`
	sound       = `typeof(started_at) = 'integer' AND started_at BETWEEN 1 AND ?3 AND (ended_at IS NULL OR typeof(ended_at) = 'integer' AND ended_at BETWEEN started_at AND ?3)`
	insightRuns = `SELECT CASE WHEN ended_at IS NULL THEN 'running' ELSE COALESCE(NULLIF(outcome, ''), 'unknown') END, COUNT(*), COALESCE(SUM(ended_at - started_at), 0)
 FROM task_runs WHERE ` + sound + ` AND started_at >= ?1 AND started_at < ?2 GROUP BY 1`
	insightOddRuns = `SELECT COUNT(*) FROM task_runs WHERE NOT (` + sound + `)`
)

// clocksDiffer is how far in the future a time may lie.
const clocksDiffer = 10 * time.Minute

// Insights counts the board's window: since and before until. It is one read.
func (b *Board) Insights(ctx context.Context, since, until time.Time) (Insights, error) {
	var out Insights
	args := []any{since.Unix(), until.Unix(), time.Now().Add(clocksDiffer).Unix()}
	err := b.read(ctx, func(c *sqlite.Conn) error {
		out = Insights{Board: b.slug, Ends: map[string]int64{}}
		if _, err := c.Row(insightCards, args, &out.Made, &out.Done, &out.Odd); err != nil {
			return err
		}
		for r, err := range c.Query(insightRuns, args...) {
			if err != nil {
				return err
			}
			out.Ends[r.Text(0)] = r.Int(1)
			out.Runs += r.Int(1)
			out.Seconds += r.Float(2)
		}
		odd := int64(0)
		_, err := c.Row(insightOddRuns, []any{nil, nil, args[2]}, &odd)
		out.Odd += odd
		return err
	})
	return out, err
}

// InsightsOf counts the boards of a list. One that cannot be read is told as such and does not keep the others from being counted.
func InsightsOf(ctx context.Context, list []Info, since, until time.Time, open Opener) []Insights {
	out := make([]Insights, 0, len(list))
	for _, info := range list {
		one, err := insightsOf(ctx, info.Slug, since, until, open)
		if err != nil {
			one = Insights{Board: info.Slug, Ends: map[string]int64{}, Trouble: err.Error()}
		}
		out = append(out, one)
	}
	return out
}

func insightsOf(ctx context.Context, slug Slug, since, until time.Time, open Opener) (Insights, error) {
	board, release, err := open(ctx, slug)
	if err != nil {
		return Insights{}, err
	}
	defer release()
	return board.Insights(ctx, since, until)
}
