package kanban

import (
	"context"

	"gatewayd/internal/sqlite"
)

// BoardRun is a run with the title of its card, which is "" where the card is gone.
type BoardRun struct {
	Run
	Title string
}

const (
	selectRunsSince = `SELECT ` + runColumns + `, COALESCE(t.title, '') FROM task_runs r LEFT JOIN tasks t ON t.id = r.task_id
WHERE r.ended_at IS NULL OR r.ended_at >= ? ORDER BY r.started_at DESC, r.id DESC LIMIT ?`
	countRunsSince = `SELECT COUNT(*) FROM task_runs r WHERE r.ended_at IS NULL OR r.ended_at >= ?`
)

// RunsSince gives the runs of the whole board that were under way at a moment in epoch seconds or later: the newest first, at most limit of
// them, and how many older ones were left out.
func (b *Board) RunsSince(ctx context.Context, since int64, limit int) (list []BoardRun, left int, err error) {
	err = b.read(ctx, func(c *sqlite.Conn) (err error) {
		list, err = collect(c, func(row *sqlite.Row) BoardRun { return BoardRun{scanRun(row, 0), row.Text(runWidth)} }, selectRunsSince, since, limit)
		if err != nil {
			return err
		}
		all := 0
		_, err = c.Row(countRunsSince, []any{since}, &all)
		left = all - len(list)
		return err
	})
	return list, left, err
}
