package gateway

import (
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
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

	// Continue is a turn without a message: the model goes on from the results of calls with which the rows of Session end, and no row of a
	// person is stored. Nothing is said beside, and it is bound to its caller. A Conflict problem where the rows end in another way.
	Continue bool

	// Images are what the person shows beside Text, by their bytes: at most provider.MaxImages of provider.MaxImage. The row's content
	// has a caption for each, and its wire the very bytes that are sent.
	Images []provider.Image

	// History is the conversation before Text as the client tells it. It is stored once, as rows, when the session has none yet;
	// afterwards the rows win and History is ignored.
	History []provider.Message

	// UID names the message and is its row's; empty: one is made. Of accepted messages (Post, Detached) saying it twice says it once.
	UID string

	// Detached turns outlive their caller: the message is committed before anything else happens, and a turn that was cut off by
	// the end of the daemon is resumed. A bound one ends with its caller, and is closed with an explanation after a crash.
	Detached bool

	// Wishes are what the client asks of the answers of this turn. Those of a run stand in its row (sessiondb.Run.Request), where a process
	// that goes on with the turn finds them; those of any other message end with the process, and so does a bound turn.
	Wishes provider.Wishes

	Run *sessiondb.NewRun // of a message that is posted: stored in the same transaction, and told of by its maker

	Hidden bool // the session that this message creates is left out of lists
	Bare   bool // the model is told of no tools

	Mode Mode // what a turn that runs already means for this message

	told    *told              // by Tell
	waiting bool               // it lies in the inbox under its UID
	pending *sessiondb.Pending // a turn that goes on from its rows
}

// Mode says what becomes of a message while a turn of its conversation runs. Without one all modes are a turn of its own. While a
// compaction is under way, Redirect and Interrupt count as Queue: a summary that was paid for is not thrown away for a word.
type Mode string

// The modes.
const (
	ModeQueue     Mode = ""          // behind those that wait
	ModeSteer     Mode = "steer"     // into the running turn, after its next tool result; without one it becomes the next message
	ModeRedirect  Mode = "redirect"  // the running turn ends, what was visible of it is kept, and this message goes first
	ModeInterrupt Mode = "interrupt" // the running turn is stopped like by Stop, and this message goes first
)

// Accepted says that a message is committed: it is answered, or somebody is told why not, also when the daemon is killed now.
type Accepted struct {
	Session  string `json:"session"`
	UID      string `json:"uid"`
	Position int    `json:"position"`       // among those that wait; 0: it is said already
	Held     bool   `json:"held,omitempty"` // the daemon is stopping: it is answered after the next start
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
	EventModel        EventKind = "model"         // Text is provider/model of this turn, before its first frame
	EventQueued       EventKind = "queued"        // Text is where the message waits: a place in the conversation or at the provider
	EventApproval     EventKind = "approval"      // a call waits for a person; Approval is the question, Text its effect
	EventDecided      EventKind = "decided"       // a call waits no longer; Approval says by whom and how it was decided
	EventSteered      EventKind = "steered"       // Text was said into the turn, its row is stored
	EventWatching     EventKind = "watching"      // from here on nothing is missed; Turn runs now, Seq is the newest event before. The first for watchers
	EventTurn         EventKind = "turn"          // a turn has begun; Text is the message. For watchers
	EventEnded        EventKind = "ended"         // a turn has ended with Result. For watchers
)

// Event is what a turn shows while it runs. Deltas may be joined when the reader is slow; their order is kept.
type Event struct {
	Kind   EventKind
	Text   string
	Tool   string
	CallID string
	Err    bool

	Seq      int64     // of a watcher's events: grows, so that one who attaches again knows what he has seen
	Turn     string    // of a watcher's events: the turn
	UID      string    // of EventTurn: of the message that it answers; of EventNotice: of one that was stopped before its turn began
	Life     string    // of EventWatching: the daemon's; where it is another one, a turn is told anew and not on
	Result   *Result   // of EventEnded
	Approval *Approval // of EventApproval and EventDecided; read-only

	from string // of one kept for later watchers without its text: the call by which the text is found in the turn's rows
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
	Digest          string         // of the turn's rows up to LastRow, for its receipt (sessiondb.Receipt); empty where nothing was acknowledged
	SinkDropped     bool           // the reader of events was too slow and was cut off; the turn itself is whole
	PendingSteer    []string       // what was said into the turn and found no tool result to follow; it is the next message, behind those that wait
	Prefix          Prefix         // how the turn's last request compares with the one before it
	Resumed         int            // how often the turn was resumed after the end of its process
}

// Recovered says what became of a turn whose process died.
type Recovered struct {
	Session   string `json:"session"`
	TurnID    string `json:"turn"`
	Decision  string `json:"decision"`            // DecisionResumed and so on
	Outcome   string `json:"outcome"`             // one sentence
	Attempts  int    `json:"attempts,omitempty"`  // processes that have worked on it, this one included when it is resumed
	Unknown   int    `json:"unknown,omitempty"`   // calls answered as "effect unknown"
	NotRun    int    `json:"not_run,omitempty"`   // read-only calls answered as not run
	Dropped   int    `json:"dropped,omitempty"`   // rows of read-only calls taken out, the model will ask again
	Withdrawn bool   `json:"withdrawn,omitempty"` // an old confirmation was withdrawn
	Closed    bool   `json:"closed,omitempty"`    // a closing row was written
	Err       error  `json:"-"`                   // the repair failed and will be tried again before the session's next turn
}

// Decisions about a turn whose process died.
const (
	DecisionResumed   = "resumed"   // it goes on from its rows
	DecisionClosed    = "closed"    // it was explained and closed
	DecisionSuspended = "suspended" // it ended its process too often
	DecisionEnded     = "ended"     // it had ended
	DecisionWaits     = "waits"     // it could not be looked at yet
)

// Status is a picture of the moment.
type Status struct {
	Draining      bool          `json:"draining"`
	Conversations int           `json:"conversations"` // goroutines alive
	Queued        int           `json:"queued"`        // messages that wait for their turn
	Resumed       int64         `json:"resumed"`       // turns resumed since the start
	PrefixBreaks  int64         `json:"prefix_breaks"` // requests that did not begin like the one before them, since the start
	Running       []RunningTurn `json:"running"`
	Turns         int64         `json:"turns"` // ended since the start
	Failed        int64         `json:"failed"`
	Interrupted   int64         `json:"interrupted"`
}

// RunningTurn is a turn in progress.
type RunningTurn struct {
	Session  string    `json:"session"`
	Turn     string    `json:"turn"`
	Model    string    `json:"model"`
	Phase    string    `json:"phase"` // lease, open, model, tools, close
	Since    time.Time `json:"since"`
	Progress time.Time `json:"progress"` // last sign of life
}
