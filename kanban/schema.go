package kanban

import "strings"

// The schema is data, so that creating, extending and rebuilding a table read the same list. Columns stand in the order
// of a fresh file of the newest Hermes; files that were migrated have other orders, which is why every statement names
// its columns. Every NOT NULL column that may have to be added has a default: older programs insert by name.
//
// The file has no triggers, no views, no foreign keys, and its user_version stays 0.

type column struct {
	name, decl string
	late       bool // even a fresh file gets it by ALTER, so it comes last
}

// addable: SQLite adds no key and nothing that may not be NULL and has no default.
func (c column) addable() bool {
	return !strings.Contains(c.decl, "PRIMARY KEY") && (!strings.Contains(c.decl, "NOT NULL") || strings.Contains(c.decl, "DEFAULT"))
}

type table struct {
	name    string
	columns []column
	key     string // table constraint
	cursor  string // the column whose declared type must be INTEGER; early files had TEXT
}

var (
	tasksTable = table{name: "tasks", columns: []column{
		{name: "id", decl: "TEXT PRIMARY KEY"},
		{name: "title", decl: "TEXT NOT NULL"},
		{name: "body", decl: "TEXT"},
		{name: "assignee", decl: "TEXT"},
		{name: "status", decl: "TEXT NOT NULL"},
		{name: "priority", decl: "INTEGER DEFAULT 0"},
		{name: "created_by", decl: "TEXT"},
		{name: "created_at", decl: "INTEGER NOT NULL"},
		{name: "started_at", decl: "INTEGER"},
		{name: "completed_at", decl: "INTEGER"},
		{name: "workspace_kind", decl: "TEXT NOT NULL DEFAULT 'scratch'"},
		{name: "workspace_path", decl: "TEXT"},
		{name: "branch_name", decl: "TEXT"},
		{name: "project_id", decl: "TEXT"},
		{name: "claim_lock", decl: "TEXT"},
		{name: "claim_expires", decl: "INTEGER"},
		{name: "tenant", decl: "TEXT"},
		{name: "result", decl: "TEXT"},
		{name: "idempotency_key", decl: "TEXT"},
		{name: "consecutive_failures", decl: "INTEGER NOT NULL DEFAULT 0"},
		{name: "worker_pid", decl: "INTEGER"},
		{name: "worker_started_at", decl: "INTEGER"}, // holds the text of a process fingerprint
		{name: "last_failure_error", decl: "TEXT"},
		{name: "max_runtime_seconds", decl: "INTEGER"},
		{name: "last_heartbeat_at", decl: "INTEGER"},
		{name: "current_run_id", decl: "INTEGER"},
		{name: "workflow_template_id", decl: "TEXT"},
		{name: "current_step_key", decl: "TEXT"},
		{name: "skills", decl: "TEXT"},
		{name: "model_override", decl: "TEXT"},
		{name: "provider_override", decl: "TEXT"},
		{name: "reasoning_effort", decl: "TEXT"},
		{name: "max_retries", decl: "INTEGER"},
		{name: "goal_mode", decl: "INTEGER NOT NULL DEFAULT 0"},
		{name: "goal_max_turns", decl: "INTEGER"},
		{name: "session_id", decl: "TEXT"},
		{name: "block_kind", decl: "TEXT"},
		{name: "block_recurrences", decl: "INTEGER NOT NULL DEFAULT 0"},
		{name: "completion_contract", decl: "TEXT", late: true},
	}}
	linksTable = table{name: "task_links", columns: []column{
		{name: "parent_id", decl: "TEXT NOT NULL"},
		{name: "child_id", decl: "TEXT NOT NULL"},
	}, key: "PRIMARY KEY (parent_id, child_id)"}
	commentsTable = table{name: "task_comments", cursor: "id", columns: []column{
		{name: "id", decl: "INTEGER PRIMARY KEY AUTOINCREMENT"},
		{name: "task_id", decl: "TEXT NOT NULL"},
		{name: "author", decl: "TEXT NOT NULL"},
		{name: "body", decl: "TEXT NOT NULL"},
		{name: "created_at", decl: "INTEGER NOT NULL"},
	}}
	eventsTable = table{name: "task_events", cursor: "id", columns: []column{
		{name: "id", decl: "INTEGER PRIMARY KEY AUTOINCREMENT"},
		{name: "task_id", decl: "TEXT NOT NULL"},
		{name: "run_id", decl: "INTEGER"},
		{name: "kind", decl: "TEXT NOT NULL"},
		{name: "payload", decl: "TEXT"},
		{name: "created_at", decl: "INTEGER NOT NULL"},
	}}
	runsTable = table{name: "task_runs", cursor: "id", columns: []column{
		{name: "id", decl: "INTEGER PRIMARY KEY AUTOINCREMENT"},
		{name: "task_id", decl: "TEXT NOT NULL"},
		{name: "profile", decl: "TEXT"},
		{name: "step_key", decl: "TEXT"},
		{name: "status", decl: "TEXT NOT NULL"},
		{name: "claim_lock", decl: "TEXT"},
		{name: "claim_expires", decl: "INTEGER"},
		{name: "worker_pid", decl: "INTEGER"},
		{name: "worker_started_at", decl: "INTEGER"},
		{name: "max_runtime_seconds", decl: "INTEGER"},
		{name: "last_heartbeat_at", decl: "INTEGER"},
		{name: "started_at", decl: "INTEGER NOT NULL"},
		{name: "ended_at", decl: "INTEGER"},
		{name: "outcome", decl: "TEXT"},
		{name: "summary", decl: "TEXT"},
		{name: "metadata", decl: "TEXT"},
		{name: "error", decl: "TEXT"},
	}}
	attachmentsTable = table{name: "task_attachments", columns: []column{
		{name: "id", decl: "INTEGER PRIMARY KEY AUTOINCREMENT"},
		{name: "task_id", decl: "TEXT NOT NULL"},
		{name: "filename", decl: "TEXT NOT NULL"},
		{name: "stored_path", decl: "TEXT NOT NULL"},
		{name: "content_type", decl: "TEXT"},
		{name: "size", decl: "INTEGER NOT NULL DEFAULT 0"},
		{name: "uploaded_by", decl: "TEXT"},
		{name: "created_at", decl: "INTEGER NOT NULL"},
	}}
	subsTable = table{name: "kanban_notify_subs", cursor: "last_event_id", columns: []column{
		{name: "task_id", decl: "TEXT NOT NULL"},
		{name: "platform", decl: "TEXT NOT NULL"},
		{name: "chat_id", decl: "TEXT NOT NULL"},
		{name: "thread_id", decl: "TEXT NOT NULL DEFAULT ''"},
		{name: "user_id", decl: "TEXT"},
		{name: "user_id_alt", decl: "TEXT"},
		{name: "chat_type", decl: "TEXT"},
		{name: "notifier_profile", decl: "TEXT"},
		{name: "delivery_mode", decl: "TEXT NOT NULL DEFAULT 'notify'"},
		{name: "notify_progress", decl: "INTEGER NOT NULL DEFAULT 0"},
		{name: "delivery_metadata", decl: "TEXT"},
		{name: "created_at", decl: "INTEGER NOT NULL"},
		{name: "last_event_id", decl: "INTEGER NOT NULL DEFAULT 0"},
		{name: "last_ping_event_id", decl: "INTEGER NOT NULL DEFAULT 0"},
	}, key: "PRIMARY KEY (task_id, platform, chat_id, thread_id)"}

	// gwRunsTable is ours: which keeper holds a run, until its exit is accounted for.
	gwRunsTable = table{name: "gw_runs", columns: []column{
		{name: "run_id", decl: "INTEGER PRIMARY KEY"},
		{name: "task_id", decl: "TEXT NOT NULL"},
		{name: "keeper_id", decl: "TEXT NOT NULL"},
		{name: "pid", decl: "INTEGER NOT NULL DEFAULT 0"},
		{name: "fingerprint", decl: "TEXT"},
		{name: "spawned_at", decl: "INTEGER NOT NULL DEFAULT 0"},
		{name: "settled_at", decl: "INTEGER"},
	}}
	// gwSchedulesTable is ours: when a scheduled card wakes.
	gwSchedulesTable = table{name: "gw_schedules", columns: []column{
		{name: "task_id", decl: "TEXT PRIMARY KEY"},
		{name: "due_at", decl: "INTEGER NOT NULL DEFAULT 0"},
		{name: "rule", decl: "TEXT"}, // cron; NULL = once
		{name: "zone", decl: "TEXT"},
		{name: "last_fired_at", decl: "INTEGER"},
		{name: "last_copy", decl: "TEXT"},
		{name: "missed", decl: "INTEGER NOT NULL DEFAULT 0"},
		{name: "event_id", decl: "INTEGER NOT NULL DEFAULT 0"}, // the event by which the card was scheduled
		{name: "moved_at", decl: "INTEGER"},                    // when due_at was last moved on by the rule
	}}
	// gwStopsTable is ours: requests to end the worker of a run, until it has ended.
	gwStopsTable = table{name: "gw_stops", columns: []column{
		{name: "run_id", decl: "INTEGER PRIMARY KEY"},
		{name: "task_id", decl: "TEXT NOT NULL"},
		{name: "reason", decl: "TEXT"},
		{name: "actor", decl: "TEXT"},
		{name: "to_status", decl: "TEXT"},
		{name: "assignee", decl: "TEXT"},
		{name: "at", decl: "INTEGER NOT NULL DEFAULT 0"},
	}}

	// gwSubscriptionsTable is ours: who is told of what happens to a card, or on the whole board where task_id is NULL. Events
	// up to the cursor are no news to it, or have their row in gw_outbox already.
	gwSubscriptionsTable = table{name: "gw_subscriptions", columns: []column{
		{name: "id", decl: "INTEGER PRIMARY KEY AUTOINCREMENT"}, // an id is never used twice: rows of the outbox name it
		{name: "task_id", decl: "TEXT"},
		{name: "kinds", decl: "TEXT NOT NULL DEFAULT '*'"}, // event kinds with blanks between them; * is all
		{name: "target", decl: "TEXT NOT NULL DEFAULT ''"}, // webhook, command or session
		{name: "address", decl: "TEXT NOT NULL DEFAULT ''"},
		{name: "created_by", decl: "TEXT"},
		{name: "created_at", decl: "INTEGER NOT NULL DEFAULT 0"},
		{name: "cursor", decl: "INTEGER NOT NULL DEFAULT 0"},
		{name: "parked_at", decl: "INTEGER"},
		{name: "parked_reason", decl: "TEXT"},
		{name: "lease_holder", decl: "TEXT"}, // the process that is delivering for it just now
		{name: "lease_until", decl: "INTEGER NOT NULL DEFAULT 0"},
	}}
	// gwOutboxTable is ours: one row for each event that a subscriber is to be told of, written with the event. body is what
	// is sent, as it was then: the event and its card may be gone before it arrives.
	gwOutboxTable = table{name: "gw_outbox", columns: []column{
		{name: "id", decl: "INTEGER PRIMARY KEY"},
		{name: "subscription_id", decl: "INTEGER NOT NULL DEFAULT 0"},
		{name: "event_id", decl: "INTEGER NOT NULL DEFAULT 0"},
		{name: "task_id", decl: "TEXT NOT NULL DEFAULT ''"},
		{name: "kind", decl: "TEXT NOT NULL DEFAULT ''"},
		{name: "key", decl: "TEXT NOT NULL DEFAULT ''"},
		{name: "body", decl: "TEXT NOT NULL DEFAULT '{}'"},
		{name: "created_at", decl: "INTEGER NOT NULL DEFAULT 0"},
		{name: "attempts", decl: "INTEGER NOT NULL DEFAULT 0"},
		{name: "tried_at", decl: "INTEGER"}, // the first attempt since the last retry by hand
		{name: "next_at", decl: "INTEGER NOT NULL DEFAULT 0"},
		{name: "last_error", decl: "TEXT"},
		{name: "parked_at", decl: "INTEGER"},
		{name: "delivered_at", decl: "INTEGER"},
	}, key: "UNIQUE (subscription_id, event_id)"}
)

// schemaTables is every table, tasks first: a peer that sees tasks takes the file for a board.
func schemaTables() []table {
	return []table{tasksTable, linksTable, commentsTable, eventsTable, runsTable, attachmentsTable, subsTable, gwRunsTable, gwSchedulesTable, gwStopsTable, gwSubscriptionsTable, gwOutboxTable, gwPauseTable}
}

type index struct{ name, table, columns string }

// schemaIndexes come after the columns: creating them first is what broke legacy files with "no such column".
func schemaIndexes() []index {
	return []index{
		{"idx_tasks_assignee_status", "tasks", "(assignee, status)"},
		{"idx_tasks_status", "tasks", "(status)"},
		{"idx_tasks_tenant", "tasks", "(tenant)"},
		{"idx_tasks_idempotency", "tasks", "(idempotency_key)"},
		{"idx_tasks_session_id", "tasks", "(session_id)"},
		{"idx_links_child", "task_links", "(child_id)"},
		{"idx_links_parent", "task_links", "(parent_id)"},
		{"idx_comments_task", "task_comments", "(task_id, created_at)"},
		{"idx_events_task", "task_events", "(task_id, created_at)"},
		{"idx_events_run", "task_events", "(run_id, id)"},
		{"idx_runs_task", "task_runs", "(task_id, started_at)"},
		{"idx_runs_status", "task_runs", "(status)"},
		{"idx_attachments_task", "task_attachments", "(task_id, created_at)"},
		{"idx_notify_task", "kanban_notify_subs", "(task_id)"},
		{"gw_runs_unsettled_task", "gw_runs", "(task_id) WHERE settled_at IS NULL"},
		{"gw_schedules_due", "gw_schedules", "(due_at)"},
		{"gw_events_deleted", "task_events", "(task_id) WHERE " + ofDeleted},
		{"gw_events_doubts", "task_events", "(task_id) WHERE " + doubtful},
		{"gw_subscriptions_task", "gw_subscriptions", "(task_id)"},
		{"gw_outbox_open", "gw_outbox", "(subscription_id, event_id) WHERE delivered_at IS NULL AND parked_at IS NULL"},
		{"gw_outbox_delivered", "gw_outbox", "(delivered_at) WHERE delivered_at IS NOT NULL"},
	}
}

func (t table) createSQL() string {
	lines := make([]string, 0, len(t.columns)+1)
	for _, c := range t.columns {
		if !c.late {
			lines = append(lines, "    "+c.name+" "+c.decl)
		}
	}
	if t.key != "" {
		lines = append(lines, "    "+t.key)
	}
	return "CREATE TABLE IF NOT EXISTS " + t.name + " (\n" + strings.Join(lines, ",\n") + "\n)"
}

func (t table) alterSQL(c column) string {
	return "ALTER TABLE " + t.name + " ADD COLUMN " + c.name + " " + c.decl
}

func (i index) createSQL() string {
	return "CREATE INDEX IF NOT EXISTS " + i.name + " ON " + i.table + i.columns
}
