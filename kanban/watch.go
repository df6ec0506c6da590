package kanban

import (
	"context"
	"slices"
	"strings"

	"gatewayd/internal/sqlite"
)

// EventFilter chooses events of a board; zero values choose all.
type EventFilter struct {
	After    int64 // only later ones
	Task     string
	Assignee string // of the event's card, as it is now
	Tenant   string
	Kinds    []string
	Limit    int // 0 = 200
}

// EventsOf gives the events after a cursor that a filter lets through, oldest first, and the cursor to go on from: it also
// stands behind events that were passed over.
func (b *Board) EventsOf(ctx context.Context, f EventFilter) (list []Event, cursor int64, err error) {
	if f.Limit <= 0 {
		f.Limit = maxEvents
	}
	sql, args := f.sql()
	err = b.read(ctx, func(c *sqlite.Conn) (err error) {
		if _, err := c.Row(selectLatestEvent, nil, &cursor); err != nil {
			return err
		}
		list, err = collect(c, scanEvent, sql, args...)
		return err
	})
	if len(list) == f.Limit {
		cursor = list[len(list)-1].ID
	}
	return append([]Event{}, list...), max(cursor, f.After), err
}

func (f EventFilter) sql() (string, []any) {
	where, args := []string{"e.id > ?"}, []any{f.After}
	if f.Task != "" {
		where, args = append(where, "e.task_id = ?"), append(args, f.Task)
	}
	for _, by := range [][2]string{{"assignee", strings.ToLower(f.Assignee)}, {"tenant", f.Tenant}} {
		if by[1] != "" {
			where = append(where, "e.task_id IN (SELECT t.id FROM tasks t WHERE t."+by[0]+" = ?)")
			args = append(args, by[1])
		}
	}
	if len(f.Kinds) > 0 {
		where = append(where, "e.kind IN (?"+strings.Repeat(", ?", len(f.Kinds)-1)+")")
		for _, kind := range f.Kinds {
			args = append(args, kind)
		}
	}
	return `SELECT ` + eventColumns + ` FROM task_events e WHERE ` + strings.Join(where, " AND ") + ` ORDER BY e.id LIMIT ?`, append(args, f.Limit)
}

// Assignee is a name that cards are given to.
type Assignee struct {
	Name   string         `json:"name"`
	OnDisk bool           `json:"on_disk"` // a lane of this configuration has the name; a person has none
	Counts map[string]int `json:"counts"`  // cards by status, archived ones left out
}

// Assignees lists who has cards, and the lanes that have none, by name.
func (s Stats) Assignees(lanes []string) []Assignee {
	list := []Assignee{}
	for name, counts := range s.ByAssignee {
		list = append(list, Assignee{name, slices.Contains(lanes, name), counts})
	}
	for _, lane := range lanes {
		if _, has := s.ByAssignee[lane]; !has {
			list = append(list, Assignee{lane, true, map[string]int{}})
		}
	}
	slices.SortFunc(list, func(a, b Assignee) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// ActiveWorker is a run that is under way, as lists of workers show it. Times are epoch seconds; zero = unknown.
type ActiveWorker struct {
	Run               RunID  `json:"run_id"`
	Task              string `json:"task_id"`
	Title             string `json:"task_title"`
	Status            Status `json:"task_status"`
	Assignee          string `json:"task_assignee"`
	Profile           string `json:"profile"`
	PID               int    `json:"worker_pid"`
	StartedAt         int64  `json:"started_at"`
	ClaimLock         string `json:"claim_lock"`
	ClaimExpires      int64  `json:"claim_expires"`
	LastHeartbeatAt   int64  `json:"last_heartbeat_at"`
	MaxRuntimeSeconds int64  `json:"max_runtime_seconds"`
}

// Active is the row for lists of workers.
func (r Running) Active() ActiveWorker {
	return ActiveWorker{
		Run: r.Run.ID, Task: r.Task.ID, Title: r.Task.Title, Status: r.Task.Status, Assignee: r.Task.Assignee, Profile: r.Run.Profile, PID: r.Task.WorkerPID,
		StartedAt: r.Started(), ClaimLock: r.Task.ClaimLock, ClaimExpires: r.Task.ClaimExpires, LastHeartbeatAt: r.Task.LastHeartbeatAt,
		MaxRuntimeSeconds: r.Run.MaxRuntimeSeconds,
	}
}
