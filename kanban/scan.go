package kanban

import (
	"time"

	"gatewayd/internal/sqlite"
)

const taskColumns = `t.id, t.title, t.body, t.assignee, t.status, t.priority, t.created_by, t.created_at, t.started_at, t.completed_at,
t.workspace_kind, t.workspace_path, t.branch_name, t.project_id, t.claim_lock, t.claim_expires, t.tenant, t.result, t.idempotency_key,
t.consecutive_failures, t.worker_pid, t.worker_started_at, t.last_failure_error, t.max_runtime_seconds, t.last_heartbeat_at,
t.current_run_id, t.workflow_template_id, t.current_step_key, t.skills, t.model_override, t.provider_override, t.reasoning_effort,
t.max_retries, t.goal_mode, t.goal_max_turns, t.session_id, t.block_kind, t.block_recurrences, t.completion_contract`

const taskWidth = 39 // number of taskColumns: what else a query selects comes after

const runColumns = `r.id, r.task_id, r.profile, r.step_key, r.status, r.claim_lock, r.claim_expires, r.worker_pid, r.worker_started_at,
r.max_runtime_seconds, r.last_heartbeat_at, r.started_at, r.ended_at, r.outcome, r.summary, r.metadata, r.error`

const eventColumns = `e.id, e.task_id, e.run_id, e.kind, e.payload, e.created_at`

// cursor reads the columns of a row from left to right.
type cursor struct {
	row *sqlite.Row
	i   int
}

func (c *cursor) next() int {
	c.i++
	return c.i - 1
}

func (c *cursor) text() string { return c.row.Text(c.next()) }
func (c *cursor) num() int64   { return c.row.Int(c.next()) }
func (c *cursor) flag() bool   { return c.row.Bool(c.next()) }
func (c *cursor) sec() int64   { return seconds(c.row, c.next()) }

func scanTask(row *sqlite.Row) Task {
	c := &cursor{row: row}
	return Task{
		ID: c.text(), Title: c.text(), Body: c.text(), Assignee: c.text(), Status: Status(c.text()), Priority: c.num(),
		CreatedBy: c.text(), CreatedAt: c.sec(), StartedAt: c.sec(), CompletedAt: c.sec(),
		WorkspaceKind: c.text(), WorkspacePath: c.text(), BranchName: c.text(), ProjectID: c.text(),
		ClaimLock: c.text(), ClaimExpires: c.sec(), Tenant: c.text(), Result: c.text(), IdempotencyKey: c.text(),
		ConsecutiveFailures: c.num(), WorkerPID: int(c.num()), WorkerStarted: c.text(), LastFailureError: c.text(),
		MaxRuntimeSeconds: c.num(), LastHeartbeatAt: c.sec(), CurrentRunID: RunID(c.num()),
		WorkflowTemplateID: c.text(), CurrentStepKey: c.text(), Skills: decodeSkills(c.text()),
		ModelOverride: c.text(), ProviderOverride: c.text(), ReasoningEffort: c.text(), MaxRetries: row.OptInt(c.next()),
		GoalMode: c.flag(), GoalMaxTurns: c.num(), SessionID: c.text(), BlockKind: c.text(), BlockRecurrences: c.num(),
		CompletionContract: c.text(),
	}
}

func scanRun(row *sqlite.Row, from int) Run {
	c := &cursor{row: row, i: from}
	return Run{
		ID: RunID(c.num()), TaskID: c.text(), Profile: c.text(), StepKey: c.text(), Status: c.text(), ClaimLock: c.text(),
		ClaimExpires: c.sec(), WorkerPID: int(c.num()), WorkerStarted: c.text(), MaxRuntimeSeconds: c.num(),
		LastHeartbeatAt: c.sec(), StartedAt: c.sec(), EndedAt: c.sec(), Outcome: c.text(), Summary: c.text(),
		Metadata: rawJSON(c.text()), Error: c.text(),
	}
}

func scanEvent(row *sqlite.Row) Event {
	c := &cursor{row: row}
	return Event{
		ID: c.num(), TaskID: c.text(), RunID: RunID(c.num()), Kind: c.text(), Payload: rawJSON(c.text()), CreatedAt: c.sec(),
	}
}

// seconds reads a time. Some old rows hold a date as text, of which SQLite's own cast would take the year for the number.
func seconds(row *sqlite.Row, i int) int64 {
	const lastYear = 9999
	n := row.Int(i)
	if n > lastYear || row.Null(i) {
		return n
	}
	text, ok := row.Any(i).(string)
	if !ok {
		return n
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.Unix()
		}
	}
	return n
}

func collect[T any](c *sqlite.Conn, scan func(*sqlite.Row) T, sql string, args ...any) ([]T, error) {
	var list []T
	for row, err := range c.Query(sql, args...) {
		if err != nil {
			return nil, err
		}
		list = append(list, scan(row))
	}
	return list, nil
}

const selectTask = `SELECT ` + taskColumns + ` FROM tasks t WHERE t.id = ?`

// loadTask reads a card, or answers that it is missing.
func loadTask(c *sqlite.Conn, id string) (Task, error) {
	tasks, err := collect(c, scanTask, selectTask, id)
	if err != nil {
		return Task{}, err
	}
	if len(tasks) == 0 {
		return Task{}, missingCard(id)
	}
	return tasks[0], nil
}
