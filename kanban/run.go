package kanban

import "encoding/json"

// RunID identifies one attempt at a card. It is the fence: whoever acts for a run names it.
type RunID int64

// Run is one attempt.
type Run struct {
	ID                RunID
	TaskID            string
	Profile           string // the assignee at the claim
	StepKey           string
	Status            string // "running" while open
	ClaimLock         string
	ClaimExpires      int64
	WorkerPID         int
	WorkerStarted     string
	MaxRuntimeSeconds int64
	LastHeartbeatAt   int64
	StartedAt         int64
	EndedAt           int64 // 0 = open
	Outcome           string
	Summary           string
	Metadata          json.RawMessage // a JSON object, or nil
	Error             string
}

// Open reports whether the attempt has not ended.
func (r Run) Open() bool { return r.EndedAt == 0 }

type runWire struct {
	ID        RunID           `json:"id"`
	Profile   *string         `json:"profile"`
	StepKey   *string         `json:"step_key"`
	Status    string          `json:"status"`
	Outcome   *string         `json:"outcome"`
	Summary   *string         `json:"summary"`
	Error     *string         `json:"error"`
	Metadata  json.RawMessage `json:"metadata"`
	WorkerPID *int            `json:"worker_pid"`
	StartedAt int64           `json:"started_at"`
	EndedAt   *int64          `json:"ended_at"`
}

// JSONShape is a value of the type that MarshalJSON writes.
func (Run) JSONShape() any { return runWire{} }

// MarshalJSON gives Hermes' shape.
func (r Run) MarshalJSON() ([]byte, error) {
	return json.Marshal(runWire{
		ID: r.ID, Profile: opt(r.Profile), StepKey: opt(r.StepKey), Status: r.Status, Outcome: opt(r.Outcome), Summary: opt(r.Summary),
		Error: opt(r.Error), Metadata: r.Metadata, WorkerPID: opt(r.WorkerPID), StartedAt: r.StartedAt, EndedAt: opt(r.EndedAt),
	})
}

// Event is one line of a board's history. Its id is a cursor over the whole board and is never used twice.
type Event struct {
	ID        int64
	TaskID    string
	RunID     RunID // 0 = none
	Kind      string
	Payload   json.RawMessage // a JSON object, or nil
	CreatedAt int64
}

type eventWire struct {
	ID        int64           `json:"id"`
	TaskID    string          `json:"task_id"`
	RunID     *RunID          `json:"run_id"`
	Kind      string          `json:"kind"`
	Payload   json.RawMessage `json:"payload"`
	CreatedAt int64           `json:"created_at"`
}

// JSONShape is a value of the type that MarshalJSON writes.
func (Event) JSONShape() any { return eventWire{} }

// MarshalJSON gives the shape of the event stream: all columns.
func (e Event) MarshalJSON() ([]byte, error) {
	return json.Marshal(eventWire{ID: e.ID, TaskID: e.TaskID, RunID: opt(e.RunID), Kind: e.Kind, Payload: e.Payload, CreatedAt: e.CreatedAt})
}

// Comment is one remark on a card.
type Comment struct {
	ID        int64  `json:"id"`
	TaskID    string `json:"task_id"`
	Author    string `json:"author"`
	Body      string `json:"body"`
	CreatedAt int64  `json:"created_at"`
}

// Link says that a child waits for a parent.
type Link struct {
	Parent string `json:"parent_id"`
	Child  string `json:"child_id"`
}

// rawJSON is a JSON column as it may be passed on: NULL stays nil, and text that is not JSON (old writers, Python's NaN)
// is shown as a string instead of being lost.
func rawJSON(text string) json.RawMessage {
	switch {
	case text == "":
		return nil
	case json.Valid([]byte(text)):
		return json.RawMessage(text)
	}
	return appendJSONString(nil, text)
}
