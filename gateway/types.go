package gateway

import (
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/internal/problem"
)

// Say is one message to a conversation, and asks for one turn.
type Say struct {
	Session string // id of the session; it is created when it does not exist
	Key     string // routing address, used when Session is empty; its session is created when there is none
	Source  string // where the message comes from: SourceAPI and so on; decides what tools may do. An unknown source may do nothing.
	System  string // system prompt of a session that this message creates; empty means the configured one. Later ones are ignored.
	Title   string // title of a session that this message creates
	Dir     string // where tools work; empty means the configured directory
	Text    string // what the person wrote: shown and searched
	Wire    string // what the model gets instead, when it differs (context, sender's name); empty means Text

	// History is the conversation before Text as the client tells it. It is stored once, as rows, when the session has none yet;
	// afterwards the rows win and History is ignored.
	History []provider.Message

	// Redirect ends a running turn of this conversation (cause Redirect) and puts this message before those that wait.
	Redirect bool

	told *told // by Tell
}

// Sources of a message. They are the contexts a tool's policy knows; see tool.Policy.
const (
	SourceAPI    = "api"
	SourceCLI    = "cli"
	SourceWeb    = "web"
	SourceWorker = "worker"
	SourceNotify = "notify" // another program's news: the model may read, and change nothing
)

// EventKind says what an Event tells.
type EventKind string

const (
	EventDelta        EventKind = "delta"         // Text is a piece of the answer
	EventReasoning    EventKind = "reasoning"     // Text is a piece of the model's reasoning
	EventToolStarted  EventKind = "tool_started"  // the call's row is stored, the tool runs; Text is its arguments
	EventToolFinished EventKind = "tool_finished" // the result's row is stored; Text is the result, Err says that it is an error
	EventNotice       EventKind = "notice"        // Text is a sentence for a person, not part of the answer
)

// Event is what a turn shows while it runs. Deltas may be joined when the reader is slow; their order is kept.
type Event struct {
	Kind   EventKind
	Text   string
	Tool   string
	CallID string
	Err    bool
}

// Result is what became of a turn. Exactly one of Completed, Interrupted and Failed is true. Text is what a person may be
// shown in every case: the answer, or the sentence that explains why there is none.
type Result struct {
	Session, TurnID string
	Text            string
	FinishReason    string // stop, length, content_filter; or interrupted, error, budget, empty, not_stored
	ExitReason      string // stable word and detail for logs and clients: "text_response", "max_iterations_reached(90/90)", "interrupted(stop)"
	Completed       bool
	Interrupted     bool
	Failed          bool
	Error           *problem.Error // why it failed, nil otherwise
	Retryable       bool           // the same message may succeed later
	Class           provider.Class // class of the provider's error, when that ended the turn
	Calls           int            // completed and failed calls of the model
	Usage           provider.Usage // sum over this turn
	LastRow         int64          // id of the newest row of this turn
	SinkDropped     bool           // the reader of events was too slow and was cut off; the turn itself is whole
}

// Recovered says what became of a turn whose process died.
type Recovered struct {
	Session, TurnID string
	Outcome         string // one sentence
	Unknown         int    // calls answered as "effect unknown"
	NotRun          int    // read-only calls answered as not run
	Dropped         int    // rows of read-only calls taken out, the model will ask again
	Withdrawn       bool   // an old confirmation was withdrawn
	Closed          bool   // a closing row was written
	Err             error  // the repair failed and will be tried again before the session's next turn
}

// Status is a picture of the moment.
type Status struct {
	Draining      bool          `json:"draining"`
	Conversations int           `json:"conversations"` // goroutines alive
	Queued        int           `json:"queued"`        // messages that wait for their turn
	Running       []RunningTurn `json:"running"`
	Turns         int64         `json:"turns"` // ended since the start
	Failed        int64         `json:"failed"`
	Interrupted   int64         `json:"interrupted"`
}

// RunningTurn is a turn in progress.
type RunningTurn struct {
	Session  string    `json:"session"`
	Turn     string    `json:"turn"`
	Phase    string    `json:"phase"` // lease, open, model, tools, close
	Since    time.Time `json:"since"`
	Progress time.Time `json:"progress"` // last sign of life
}
