package kanban

import "encoding/json"

// Task is a card with all its columns. Times are epoch seconds; zero values stand for NULL.
type Task struct {
	ID                  string
	Title               string
	Body                string
	Assignee            string
	Status              Status
	Priority            int64
	CreatedBy           string
	CreatedAt           int64
	StartedAt           int64 // first claim ever; a retry does not reset it
	CompletedAt         int64
	WorkspaceKind       string
	WorkspacePath       string
	BranchName          string
	ProjectID           string
	ClaimLock           string // "<hostname>:<pid>" of the claimer, "" = unclaimed
	ClaimExpires        int64
	Tenant              string
	Result              string
	IdempotencyKey      string
	ConsecutiveFailures int64
	WorkerPID           int
	WorkerStarted       string // the process fingerprint of WorkerPID, "unverified", or a legacy start time
	LastFailureError    string
	MaxRuntimeSeconds   int64
	LastHeartbeatAt     int64
	CurrentRunID        RunID
	WorkflowTemplateID  string
	CurrentStepKey      string
	Skills              []string
	ModelOverride       string
	ProviderOverride    string
	ReasoningEffort     string
	MaxRetries          *int64 // breaker limit of this card; nil = the dispatcher's
	GoalMode            bool
	GoalMaxTurns        int64
	SessionID           string
	BlockKind           string
	BlockRecurrences    int64
	CompletionContract  string
}

// taskWire is the JSON shape that Hermes prints for a card, in its order.
type taskWire struct {
	ID                 string   `json:"id"`
	Title              string   `json:"title"`
	Body               *string  `json:"body"`
	Assignee           *string  `json:"assignee"`
	Status             Status   `json:"status"`
	Priority           int64    `json:"priority"`
	Tenant             *string  `json:"tenant"`
	WorkspaceKind      string   `json:"workspace_kind"`
	WorkspacePath      *string  `json:"workspace_path"`
	BranchName         *string  `json:"branch_name"`
	ProjectID          *string  `json:"project_id"`
	CreatedBy          *string  `json:"created_by"`
	CreatedAt          int64    `json:"created_at"`
	StartedAt          *int64   `json:"started_at"`
	CompletedAt        *int64   `json:"completed_at"`
	Result             *string  `json:"result"`
	Skills             []string `json:"skills"`
	MaxRuntimeSeconds  *int64   `json:"max_runtime_seconds"`
	MaxRetries         *int64   `json:"max_retries"`
	ModelOverride      *string  `json:"model_override"`
	ProviderOverride   *string  `json:"provider_override"`
	SessionID          *string  `json:"session_id"`
	WorkflowTemplateID *string  `json:"workflow_template_id"`
	CurrentStepKey     *string  `json:"current_step_key"`
	CompletionContract *string  `json:"completion_contract"`
	LastFailureError   *string  `json:"last_failure_error"`
}

// MarshalJSON gives Hermes' shape: NULL columns are null, skills are a list even when there are none.
func (t Task) MarshalJSON() ([]byte, error) { return json.Marshal(t.wire()) }

// JSONShape is a value of the type that MarshalJSON writes, for whoever describes it.
func (Task) JSONShape() any { return taskWire{} }

func (t Task) wire() taskWire {
	skills := t.Skills
	if skills == nil {
		skills = []string{}
	}
	return taskWire{
		ID: t.ID, Title: t.Title, Body: opt(t.Body), Assignee: opt(t.Assignee), Status: t.Status, Priority: t.Priority, Tenant: opt(t.Tenant),
		WorkspaceKind: t.WorkspaceKind, WorkspacePath: opt(t.WorkspacePath), BranchName: opt(t.BranchName), ProjectID: opt(t.ProjectID),
		CreatedBy: opt(t.CreatedBy), CreatedAt: t.CreatedAt, StartedAt: opt(t.StartedAt), CompletedAt: opt(t.CompletedAt), Result: opt(t.Result),
		Skills: skills, MaxRuntimeSeconds: opt(t.MaxRuntimeSeconds), MaxRetries: t.MaxRetries, ModelOverride: opt(t.ModelOverride),
		ProviderOverride: opt(t.ProviderOverride), SessionID: opt(t.SessionID), WorkflowTemplateID: opt(t.WorkflowTemplateID),
		CurrentStepKey: opt(t.CurrentStepKey), CompletionContract: opt(t.CompletionContract), LastFailureError: opt(t.LastFailureError),
	}
}

// opt is a column's value as the file and JSON know it: the zero value is NULL.
func opt[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
