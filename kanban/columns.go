package kanban

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"gatewayd/internal/sqlite"
)

// Columns is a board as people look at it: a column for each status, in reading order, and what a person may filter by.
type Columns struct {
	Columns     []Column `json:"columns"`
	Tenants     []string `json:"tenants"`
	Assignees   []string `json:"assignees"`
	LatestEvent int64    `json:"latest_event_id"` // the cursor from which the events that follow are new
	Now         int64    `json:"now"`
}

// Column holds the cards of one status.
type Column struct {
	Name  Status `json:"name"`
	Tasks []Face `json:"tasks"`
}

// Face is a card as it lies on the board: all its columns and what hangs on it, counted.
type Face struct {
	Task           Task
	LatestSummary  string // the first words of it
	Parents        int
	Children       int
	ChildrenDone   int
	Comments       int
	Age, Began     int64 // seconds since it was created and first started
	TimeToComplete int64 // seconds from the first start, else from its creation
	Diagnostics    []Diagnostic
	Warnings       *Warnings // what they come to; nil = there are none
}

// maxFaceSummary is how much of a summary a card shows. The whole of it is one click away.
const maxFaceSummary = 200

const (
	selectSummaries = `SELECT r.task_id, r.summary FROM task_runs r WHERE r.id IN (
    SELECT MAX(id) FROM task_runs WHERE summary IS NOT NULL AND summary <> '' GROUP BY task_id)`
	selectParentCounts  = `SELECT child_id, COUNT(*) FROM task_links GROUP BY 1`
	selectChildCounts   = `SELECT l.parent_id, COUNT(*), SUM(c.status IN ('done', 'archived')) FROM task_links l JOIN tasks c ON c.id = l.child_id GROUP BY 1`
	selectCommentCounts = `SELECT task_id, COUNT(*) FROM task_comments GROUP BY 1`
	selectTenants       = `SELECT DISTINCT tenant FROM tasks WHERE tenant <> '' ORDER BY 1`
	selectAssignees     = `SELECT DISTINCT assignee FROM tasks WHERE assignee <> '' ORDER BY 1`
)

// Columns gives the board, all of one moment. Cards of a status that is not known here get a column at the end.
func (b *Board) Columns(ctx context.Context, f Filter) (Columns, error) {
	sql, args, err := f.sql()
	if err != nil {
		return Columns{}, err
	}
	var all Columns
	err = b.read(ctx, func(c *sqlite.Conn) error {
		all = Columns{Now: time.Now().Unix()}
		tasks, err := collect(c, scanTask, sql, args...)
		if err != nil {
			return err
		}
		for sql, list := range map[string]*[]string{selectTenants: &all.Tenants, selectAssignees: &all.Assignees} {
			names, err := texts(c, sql)
			if err != nil {
				return err
			}
			*list = append([]string{}, names...)
		}
		if _, err = c.Row(selectLatestEvent, nil, &all.LatestEvent); err != nil {
			return err
		}
		faces, err := facesOf(c, tasks, all.Now)
		all.Columns = inColumns(faces, f.Archived || f.Status == StatusArchived)
		return err
	})
	return all, err
}

// facesOf counts what hangs on the cards: a statement for each kind of thing, not for each card.
func facesOf(c *sqlite.Conn, tasks []Task, now int64) ([]Face, error) {
	faces := make([]Face, len(tasks))
	at := make(map[string]*Face, len(tasks))
	for i, t := range tasks {
		faces[i] = newFace(t, now)
		at[t.ID] = &faces[i]
	}
	for sql, add := range map[string]func(*Face, *sqlite.Row){
		selectSummaries:     func(f *Face, row *sqlite.Row) { f.LatestSummary = cut(row.Text(1), maxFaceSummary) },
		selectParentCounts:  func(f *Face, row *sqlite.Row) { f.Parents = int(row.Int(1)) },
		selectChildCounts:   func(f *Face, row *sqlite.Row) { f.Children, f.ChildrenDone = int(row.Int(1)), int(row.Int(2)) },
		selectCommentCounts: func(f *Face, row *sqlite.Row) { f.Comments = int(row.Int(1)) },
	} {
		for row, err := range c.Query(sql) {
			if err != nil {
				return nil, err
			}
			if face := at[row.Text(0)]; face != nil {
				add(face, row)
			}
		}
	}
	return faces, nil
}

func newFace(t Task, now int64) Face {
	f := Face{Task: t, Age: max(0, now-t.CreatedAt)}
	began := t.CreatedAt
	if t.StartedAt != 0 {
		began, f.Began = t.StartedAt, max(0, now-t.StartedAt)
	}
	if t.CompletedAt != 0 {
		f.TimeToComplete = max(0, t.CompletedAt-began)
	}
	return f
}

func inColumns(faces []Face, archived bool) []Column {
	var columns []Column
	for _, status := range Statuses() {
		if status != StatusArchived || archived {
			columns = append(columns, Column{Name: status, Tasks: []Face{}})
		}
	}
	for _, face := range faces {
		at := slices.IndexFunc(columns, func(c Column) bool { return c.Name == face.Task.Status })
		if at < 0 {
			at, columns = len(columns), append(columns, Column{Name: face.Task.Status})
		}
		columns[at].Tasks = append(columns[at].Tasks, face)
	}
	return columns
}

// Note puts findings at the cards that they are about.
func (c Columns) Note(found []Diagnostic) {
	sums := WarningsByCard(found)
	for _, column := range c.Columns {
		for i := range column.Tasks {
			face := &column.Tasks[i]
			if sum, there := sums[face.Task.ID]; there {
				face.Warnings = &sum
			}
			for _, d := range found {
				if d.Task == face.Task.ID {
					face.Diagnostics = append(face.Diagnostics, d)
				}
			}
		}
	}
}

type faceWire struct {
	taskWire
	ReasoningEffort     *string       `json:"reasoning_effort"`
	IdempotencyKey      *string       `json:"idempotency_key"`
	ClaimLock           *string       `json:"claim_lock"`
	ClaimExpires        *int64        `json:"claim_expires"`
	WorkerPID           *int          `json:"worker_pid"`
	CurrentRunID        *RunID        `json:"current_run_id"`
	LastHeartbeatAt     *int64        `json:"last_heartbeat_at"`
	ConsecutiveFailures int64         `json:"consecutive_failures"`
	BlockKind           *string       `json:"block_kind"`
	BlockRecurrences    int64         `json:"block_recurrences"`
	GoalMode            bool          `json:"goal_mode"`
	GoalMaxTurns        *int64        `json:"goal_max_turns"`
	Age                 faceAge       `json:"age"`
	LatestSummary       *string       `json:"latest_summary"`
	LinkCounts          faceLinks     `json:"link_counts"`
	CommentCount        int           `json:"comment_count"`
	Progress            *faceProgress `json:"progress"`
	Diagnostics         []Diagnostic  `json:"diagnostics"`
	Warnings            *Warnings     `json:"warnings"`
}

type faceAge struct {
	Created        int64  `json:"created_age_seconds"`
	Started        *int64 `json:"started_age_seconds"`
	TimeToComplete *int64 `json:"time_to_complete_seconds"`
}

type faceLinks struct {
	Parents  int `json:"parents"`
	Children int `json:"children"`
}

// faceProgress counts the cards that wait for this one: how many of them are done.
type faceProgress struct {
	Done  int `json:"done"`
	Total int `json:"total"`
}

// JSONShape is a value of the type that MarshalJSON writes.
func (Face) JSONShape() any { return faceWire{} }

// MarshalJSON gives the card's columns with the counts beside them.
func (f Face) MarshalJSON() ([]byte, error) {
	t := f.Task
	wire := faceWire{
		taskWire: t.wire(), ReasoningEffort: opt(t.ReasoningEffort), IdempotencyKey: opt(t.IdempotencyKey), ClaimLock: opt(t.ClaimLock),
		ClaimExpires: opt(t.ClaimExpires), WorkerPID: opt(t.WorkerPID), CurrentRunID: opt(t.CurrentRunID), LastHeartbeatAt: opt(t.LastHeartbeatAt),
		ConsecutiveFailures: t.ConsecutiveFailures, BlockKind: opt(t.BlockKind), BlockRecurrences: t.BlockRecurrences,
		GoalMode: t.GoalMode, GoalMaxTurns: opt(t.GoalMaxTurns), LatestSummary: opt(f.LatestSummary),
		LinkCounts: faceLinks{f.Parents, f.Children}, CommentCount: f.Comments, Age: faceAge{Created: f.Age},
		Diagnostics: append([]Diagnostic{}, f.Diagnostics...), Warnings: f.Warnings,
	}
	if t.StartedAt != 0 {
		wire.Age.Started = &f.Began
	}
	if t.CompletedAt != 0 {
		wire.Age.TimeToComplete = &f.TimeToComplete
	}
	if f.Children > 0 {
		wire.Progress = &faceProgress{f.ChildrenDone, f.Children}
	}
	return json.Marshal(wire)
}
