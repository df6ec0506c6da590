package kanban

import (
	"context"
	"slices"
	"strings"
	"time"

	"gatewayd/internal/sqlite"
)

// Filter narrows a list; zero values do not.
type Filter struct {
	Status             Status
	Assignee           string
	Tenant             string
	Session            string
	WorkflowTemplateID string
	CurrentStepKey     string
	Archived           bool   // archived cards too
	Sort               string // see Sorts; "" = by priority, oldest first
	Limit              int    // 0 = all
}

// sorts maps the names of orders to SQL. The default is the order in which cards are claimed.
func sorts() map[string]string {
	return map[string]string{
		"":               "t.priority DESC, t.created_at, t.id",
		"created":        "t.created_at, t.id",
		"created-desc":   "t.created_at DESC, t.id DESC",
		"priority":       "t.priority DESC, t.created_at, t.id",
		"priority-desc":  "t.priority, t.created_at, t.id",
		"status":         "t.status, t.priority DESC, t.created_at, t.id",
		"assignee":       "t.assignee IS NULL, t.assignee, t.priority DESC, t.created_at, t.id",
		"title":          "t.title COLLATE NOCASE, t.id",
		"updated":        "COALESCE((SELECT MAX(e.created_at) FROM task_events e WHERE e.task_id = t.id), t.created_at) DESC, t.id",
		"completed-desc": "t.completed_at IS NULL, t.completed_at DESC, t.id",
	}
}

// Sorts lists the names of the orders in which List gives cards.
func Sorts() []string { return sortedKeys(anyMap(sorts()))[1:] }

func (f Filter) sql() (string, []any, error) {
	order, ok := sorts()[f.Sort]
	if !ok {
		return "", nil, invalidField("sort", "order "+quote(f.Sort), "is not known", "use one of "+strings.Join(Sorts(), ", "))
	}
	if f.Status != "" && !slices.Contains(Statuses(), f.Status) {
		return "", nil, invalidField("status", "status "+quote(string(f.Status)), "is not known", "use one of "+joinStatuses(Statuses()))
	}
	where, args := []string{"1"}, []any{}
	for _, by := range [][2]string{
		{"status", string(f.Status)},
		{"assignee", strings.ToLower(f.Assignee)},
		{"tenant", f.Tenant},
		{"session_id", f.Session},
		{"workflow_template_id", f.WorkflowTemplateID},
		{"current_step_key", f.CurrentStepKey},
	} {
		if by[1] != "" {
			where, args = append(where, "t."+by[0]+" = ?"), append(args, by[1])
		}
	}
	if f.Status == "" && !f.Archived {
		where = append(where, "t.status <> 'archived'")
	}
	sql := `SELECT ` + taskColumns + ` FROM tasks t WHERE ` + strings.Join(where, " AND ") + " ORDER BY " + order
	if f.Limit > 0 {
		sql, args = sql+" LIMIT ?", append(args, f.Limit)
	}
	return sql, args, nil
}

func joinStatuses(list []Status) string {
	var names []string
	for _, s := range list {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

func anyMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// List gives the cards that a filter lets through. It changes nothing.
func (b *Board) List(ctx context.Context, f Filter) ([]Task, error) {
	sql, args, err := f.sql()
	if err != nil {
		return nil, err
	}
	list := []Task{}
	err = b.read(ctx, func(c *sqlite.Conn) error {
		found, err := collect(c, scanTask, sql, args...)
		list = append([]Task{}, found...)
		return err
	})
	return list, err
}

// Task gives one card.
func (b *Board) Task(ctx context.Context, id string) (Task, error) {
	var task Task
	err := b.read(ctx, func(c *sqlite.Conn) (err error) {
		task, err = loadTask(c, id)
		return err
	})
	return task, err
}

const (
	selectEventsAfter = `SELECT ` + eventColumns + ` FROM task_events e WHERE e.id > ? ORDER BY e.id LIMIT ?`
	selectLatestEvent = `SELECT COALESCE(MAX(id), 0) FROM task_events`
	maxEvents         = 200
)

// Events gives the history of the whole board after a cursor, oldest first, at most limit of them (0 = 200).
func (b *Board) Events(ctx context.Context, after int64, limit int) ([]Event, error) {
	if limit <= 0 {
		limit = maxEvents
	}
	var list []Event
	err := b.read(ctx, func(c *sqlite.Conn) (err error) {
		list, err = collect(c, scanEvent, selectEventsAfter, after, limit)
		return err
	})
	return list, err
}

// LatestEvent is the cursor of the newest event, 0 on a board without one.
func (b *Board) LatestEvent(ctx context.Context) (id int64, err error) {
	err = b.read(ctx, func(c *sqlite.Conn) error {
		_, err := c.Row(selectLatestEvent, nil, &id)
		return err
	})
	return id, err
}

// Stats counts a board.
type Stats struct {
	ByStatus              map[string]int            `json:"by_status"`
	ByAssignee            map[string]map[string]int `json:"by_assignee"`
	OldestReadyAgeSeconds *int64                    `json:"oldest_ready_age_seconds"`
	Now                   int64                     `json:"now"`
	Pause                 *Pause                    `json:"pause,omitempty"` // nil = cards may start
}

const (
	selectCounts      = `SELECT t.status, COALESCE(t.assignee, ''), COUNT(*) FROM tasks t GROUP BY 1, 2`
	selectOldestReady = `SELECT MIN(t.created_at) FROM tasks t WHERE t.status = 'ready'`
)

// Stats counts the cards by status and assignee. Archived cards count by status only; cards of nobody have no assignee.
func (b *Board) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	err := b.read(ctx, func(c *sqlite.Conn) error {
		s = Stats{ByStatus: map[string]int{}, ByAssignee: map[string]map[string]int{}, Now: time.Now().Unix()}
		for row, err := range c.Query(selectCounts) {
			if err != nil {
				return err
			}
			s.add(row.Text(0), row.Text(1), int(row.Int(2)))
		}
		var err error
		if s.Pause, err = readPause(c); err != nil {
			return err
		}
		var oldest int64
		if _, err := c.Row(selectOldestReady, nil, &oldest); err != nil {
			return err
		}
		if oldest != 0 {
			s.OldestReadyAgeSeconds = new(max(0, s.Now-oldest))
		}
		return nil
	})
	return s, err
}

func (s *Stats) add(status, assignee string, n int) {
	s.ByStatus[status] += n
	if assignee == "" || status == string(StatusArchived) {
		return
	}
	if s.ByAssignee[assignee] == nil {
		s.ByAssignee[assignee] = map[string]int{}
	}
	s.ByAssignee[assignee][status] += n
}
