package kanban

import "time"

// Severity says how soon a person should look.
type Severity string

// The severities, the mildest first.
const (
	SeverityWarning  Severity = "warning"
	SeverityError    Severity = "error"
	SeverityCritical Severity = "critical"
)

// Severities lists them, the mildest first.
func Severities() []Severity { return []Severity{SeverityWarning, SeverityError, SeverityCritical} }

// rank orders severities; one that is not known ranks lowest.
func (s Severity) rank() int {
	for i, known := range Severities() {
		if s == known {
			return i + 1
		}
	}
	return 0
}

// AtLeast reports whether a finding of this severity belongs into a list that begins at least.
func (s Severity) AtLeast(least Severity) bool { return s.rank() >= least.rank() }

// Kinds of diagnostics. The first group has Hermes' names and rules, the second is ours. Those of lanes are found by the
// dispatcher's room, which knows lanes.
const (
	DiagnosticHallucinatedCards = "hallucinated_cards"
	DiagnosticPhantomRefs       = "prose_phantom_refs"
	DiagnosticFailures          = "repeated_failures"
	DiagnosticCrashes           = "repeated_crashes"
	DiagnosticStuckBlocked      = "stuck_in_blocked"
	DiagnosticBlockCycling      = "block_unblock_cycling"
	DiagnosticStranded          = "stranded_in_ready"
	DiagnosticGhost             = "ghost_running"

	DiagnosticBlockLoop       = "block_loop"       // the same kind of block again and again
	DiagnosticProvider        = "provider_refuses" // given up after too many rate limits
	DiagnosticSurvivor        = "worker_survived"  // a worker was asked to end and lives
	DiagnosticUnsettled       = "keeper_unsettled" // a run is over, its worker's end was never accounted for
	DiagnosticPausedLong      = "paused_long"      // of the board
	DiagnosticTimerStuck      = "timer_stuck"      // its time has come and nothing woke it
	DiagnosticStopUnfulfilled = "stop_unfulfilled" // somebody asked for its end, nothing happened
	DiagnosticUndelivered     = "notifications_parked"
	DiagnosticNoLane          = "lane_unknown" // nobody here takes such cards
	DiagnosticProgram         = "lane_without_program"
)

// What an Action may be. A reader that does not know one shows its label.
const (
	ActionReclaim  = "reclaim"
	ActionReassign = "reassign"
	ActionUnblock  = "unblock"
	ActionHint     = "cli_hint" // payload.command is a command line
	ActionDocs     = "open_docs"
	ActionComment  = "comment"
)

// Action is something that a person may do about a finding.
type Action struct {
	Kind      string            `json:"kind"`
	Label     string            `json:"label"`
	Payload   map[string]string `json:"payload,omitempty"`
	Suggested bool              `json:"suggested"` // the first thing to try
}

// Diagnostic is one finding about a card, or about the whole board where Task is empty. Times are epoch seconds.
type Diagnostic struct {
	Kind     string         `json:"kind"`
	Severity Severity       `json:"severity"`
	Title    string         `json:"title"`
	Detail   string         `json:"detail"`
	Task     string         `json:"task_id,omitempty"`
	Actions  []Action       `json:"actions"`
	First    int64          `json:"first_seen_at"`
	Last     int64          `json:"last_seen_at"`
	Count    int            `json:"count"`
	Run      RunID          `json:"run_id,omitempty"`
	Data     map[string]any `json:"data,omitempty"`
}

// Thresholds say from when on something is a finding. Zero values take the defaults.
type Thresholds struct {
	Failures    int           // consecutive failures of a card; default DefaultFailureLimit
	Crashes     int           // crashed runs in a row; default 2
	BlockCycles int           // block and unblock within a day; default 3
	Stranded    time.Duration // ready, assigned and unclaimed; default 30 min
	Blocked     time.Duration // blocked without a word from anybody; default 24 h
	Paused      time.Duration // a board that is paused; default 24 h
	Overdue     time.Duration // what the dispatcher should have done by itself; default 5 min
}

// The defaults of Thresholds.
const (
	DefaultCrashThreshold      = 2
	DefaultBlockCycleThreshold = 3
	DefaultStranded            = 30 * time.Minute
	DefaultBlockedLong         = 24 * time.Hour
	DefaultPausedLong          = 24 * time.Hour
	DefaultOverdue             = 5 * time.Minute
)

// cycleWindow is how far back blocks and unblocks are counted.
const cycleWindow = 24 * time.Hour

func (t Thresholds) withDefaults() Thresholds {
	for _, n := range []struct {
		value    *int
		fallback int
	}{{&t.Failures, DefaultFailureLimit}, {&t.Crashes, DefaultCrashThreshold}, {&t.BlockCycles, DefaultBlockCycleThreshold}} {
		if *n.value <= 0 {
			*n.value = n.fallback
		}
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{{&t.Stranded, DefaultStranded}, {&t.Blocked, DefaultBlockedLong}, {&t.Paused, DefaultPausedLong}, {&t.Overdue, DefaultOverdue}} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	return t
}

// Warnings sums up the findings about one card, for lists.
type Warnings struct {
	Count    int      `json:"count"`
	Kinds    []string `json:"kinds"`
	Latest   int64    `json:"latest_at"`
	Severity Severity `json:"highest_severity"`
}

// WarningsByCard sums findings up by card; those of the board itself stand under "".
func WarningsByCard(list []Diagnostic) map[string]Warnings {
	by := map[string]Warnings{}
	for _, d := range list {
		w := by[d.Task]
		w.Count++
		w.Kinds = append(w.Kinds, d.Kind)
		w.Latest = max(w.Latest, d.Last)
		if d.Severity.rank() > w.Severity.rank() {
			w.Severity = d.Severity
		}
		by[d.Task] = w
	}
	return by
}
