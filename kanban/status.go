package kanban

// Status is where a card stands. Statuses this package does not know are kept and shown as they are.
type Status string

// The statuses, in the order in which people read a board.
const (
	StatusTriage    Status = "triage"    // a rough idea
	StatusTodo      Status = "todo"      // specified, waiting for its parents
	StatusScheduled Status = "scheduled" // parked for a time
	StatusReady     Status = "ready"     // may be claimed
	StatusRunning   Status = "running"   // claimed by a worker
	StatusBlocked   Status = "blocked"   // needs a person, or the breaker tripped
	StatusReview    Status = "review"    // may be claimed by a reviewer
	StatusDone      Status = "done"
	StatusArchived  Status = "archived"
)

// Statuses lists every status in reading order.
func Statuses() []Status {
	return []Status{
		StatusTriage, StatusTodo, StatusScheduled, StatusReady, StatusRunning, StatusBlocked, StatusReview, StatusDone, StatusArchived,
	}
}

// Satisfied reports whether a parent in this status lets its children start.
func (s Status) Satisfied() bool { return s == StatusDone || s == StatusArchived }

// How a run ended.
const (
	OutcomeCompleted   = "completed"
	OutcomeBlocked     = "blocked"
	OutcomeCrashed     = "crashed"
	OutcomeTimedOut    = "timed_out"
	OutcomeStale       = "stale"
	OutcomeSpawnFailed = "spawn_failed"
	OutcomeGaveUp      = "gave_up"
	OutcomeReclaimed   = "reclaimed"
	OutcomeRateLimited = "rate_limited"
	OutcomeScheduled   = "scheduled"
	OutcomeReview      = "review_requested"
	OutcomeChanges     = "changes_requested"
)

// Why a card is blocked.
const (
	BlockDependency = "dependency"
	BlockNeedsInput = "needs_input"
	BlockCapability = "capability"
	BlockTransient  = "transient"
)

// Kinds of workspace.
const (
	WorkspaceScratch  = "scratch"
	WorkspaceDir      = "dir"
	WorkspaceWorktree = "worktree"
)

// Event kinds that other rooms write through EndRun or look for. The file may hold others.
const (
	EventClaimed           = "claimed"
	EventCompleted         = "completed"
	EventBlocked           = "blocked"
	EventUnblocked         = "unblocked"
	EventCrashed           = "crashed"
	EventTimedOut          = "timed_out"
	EventStale             = "stale"
	EventSpawnFailed       = "spawn_failed"
	EventRateLimited       = "rate_limited"
	EventReclaimed         = "reclaimed"
	EventGaveUp            = "gave_up"
	EventProtocolViolation = "protocol_violation"
	EventAttached          = "attached"

	EventTerminalWorkerReaped     = "terminal_worker_reaped"     // a worker that outlived its run was ended
	EventArchiveWorkerTermination = "archive_worker_termination" // the same of an archived card
)

const (
	// DefaultFailureLimit is how many counted failures trip the breaker where neither the card nor the caller says.
	DefaultFailureLimit = 2
	// ProtocolStreak is how many runs in a row may end with exit code 0 and no verdict before the card is blocked.
	// Models forget the final call now and then; blocking at the first one cost users good cards.
	ProtocolStreak = 3
	// BlockRecurrenceLimit is the same-kind block after which the card is reported as going round in circles.
	BlockRecurrenceLimit = 2
)
