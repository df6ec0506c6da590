package config

import "time"

// Config is every setting. The tags say the key, the default and the limits; all sizes, counts and durations
// are at least zero unless `min` says more. Where a field's zero means "off" or "no limit", its comment says so.
type Config struct {
	// Home is the directory that holds everything; it comes from --home, GATEWAYD_HOME or ~/.gatewayd and is absolute.
	Home string `yaml:"-"`

	Model       Model       `yaml:"model"`
	API         API         `yaml:"api"`
	Tools       Tools       `yaml:"tools"`
	Agent       Agent       `yaml:"agent"`
	Compression Compression `yaml:"compression"`
	Auxiliary   Auxiliary   `yaml:"auxiliary"`
	Kanban      Kanban      `yaml:"kanban"`
	// MCPServers by name: their tools are the model's.
	MCPServers map[string]MCPServer `yaml:"mcp_servers"`
	Database   Database             `yaml:"database"`
	Backup     Backup               `yaml:"backup"`
	Respawn    Respawn              `yaml:"respawn"`
	Log        Log                  `yaml:"log"`
}

// Agent is the turn loop.
type Agent struct {
	// MaxIterations of model call and tools in one turn.
	MaxIterations int `yaml:"max_iterations" default:"90" min:"1"`
	// TurnStallTimeout ends a turn in which nothing at all happened for so long.
	TurnStallTimeout time.Duration `yaml:"turn_stall_timeout" default:"600s" min:"1s"`
	// ShutdownGrace is how long a stop waits for running turns before it interrupts them. The unit's
	// TimeoutStopSec must be longer.
	ShutdownGrace time.Duration `yaml:"shutdown_grace" default:"20s"`
	// ResumeAttempts is how often a turn that outlives its caller is resumed after its process died; 0 never.
	ResumeAttempts int `yaml:"resume_attempts" default:"2" min:"0"`
	// ResumeWithin is how old such a turn may be; an older one is closed with an explanation.
	ResumeWithin time.Duration `yaml:"resume_within" default:"1h" min:"1s"`
	// BatchTimeout ends the calls of one answer, when they are several, after so long together.
	BatchTimeout time.Duration `yaml:"batch_timeout" default:"420s" min:"1s"`
	// LoopHardStop ends a turn that repeats one call without getting further; without it the model is only warned.
	LoopHardStop bool `yaml:"loop_hard_stop" default:"false"`
	// SystemPrompt goes before each conversation; empty is the built-in one.
	SystemPrompt string `yaml:"system_prompt"`
}

// Kanban is the boards, their dispatcher and the lanes.
type Kanban struct {
	// Root holds the boards. After Load it is absolute: the file's value, else GATEWAYD_KANBAN_HOME, else the home.
	Root string `yaml:"root" kind:"path"`
	// Dispatch says whether this daemon hands cards to workers.
	Dispatch bool `yaml:"dispatch" default:"true"`
	// Interval of the full tick. It is a safety net only: dispatch is woken by events.
	Interval time.Duration `yaml:"interval" default:"60s" min:"1s"`
	// FailureLimit blocks a card after so many failures in a row.
	FailureLimit int `yaml:"failure_limit" default:"2" min:"1"`
	// MaxInProgress workers over all boards; 0 is no limit.
	MaxInProgress int `yaml:"max_in_progress" default:"4"`
	// MaxInProgressPerLane workers of one lane; 0 is no limit. A lane's own max_in_progress wins.
	MaxInProgressPerLane int `yaml:"max_in_progress_per_lane" default:"0"`
	// MaxPerBoard workers of one board; 0 is no limit. A board's own max_in_progress wins.
	MaxPerBoard int `yaml:"max_per_board" default:"0"`
	// Pools are named capacities that lanes share: at most so many workers of all lanes of a pool.
	Pools map[string]int `yaml:"pools"`
	// ClaimTTL is how long a claim holds without a sign of life.
	ClaimTTL time.Duration `yaml:"claim_ttl" default:"900s" min:"1s"`
	// CrashGrace after a run's start, in which a missing process is not yet called a crash.
	CrashGrace time.Duration `yaml:"crash_grace" default:"30s"`
	// StaleTimeout ends a run without a heartbeat; 0 is off.
	StaleTimeout time.Duration `yaml:"stale_timeout" default:"4h"`
	// RateLimitCooldown keeps a card back after its worker met a rate limit.
	RateLimitCooldown time.Duration `yaml:"rate_limit_cooldown" default:"300s"`
	// ReviewDispatch says whether cards in review are handed to reviewers; false leaves them to people.
	ReviewDispatch bool `yaml:"review_dispatch" default:"true"`
	// ActivePRGuard keeps a card back while a comment of the last day names a GitHub pull request: a guess from prose.
	ActivePRGuard bool `yaml:"active_pr_guard" default:"false"`
	// Memory slows starts down while the machine, or the control group of the daemon, is short of memory.
	Memory Memory `yaml:"memory"`
	// DefaultAssignee is the lane of cards without one; empty leaves them waiting.
	DefaultAssignee string `yaml:"default_assignee"`
	// BusyPatience is how long a write waits for another process to let go of a board.
	BusyPatience time.Duration `yaml:"busy_patience" default:"60s"`
	// LogMaxBytes of one worker's log; one older generation is kept.
	LogMaxBytes int64 `yaml:"log_max_bytes" default:"2097152" min:"4096"`
	// Diagnostics says from when on something is reported as a finding.
	Diagnostics Diagnostics `yaml:"diagnostics"`
	// AutoSubscribe has a chat session told of the cards that it creates.
	AutoSubscribe bool `yaml:"auto_subscribe_on_create" default:"true"`
	// Notify is who else can be told of what happens to cards.
	Notify Notify `yaml:"notify"`
	// Lanes by name; a card's assignee names its lane.
	Lanes map[string]Lane `yaml:"lanes"`
}

// Diagnostics are the thresholds of `gatewayd kanban diagnostics`.
type Diagnostics struct {
	// FailureThreshold of failures in a row; 0 takes failure_limit.
	FailureThreshold int `yaml:"failure_threshold" default:"0"`
	// CrashThreshold of crashed runs in a row.
	CrashThreshold int `yaml:"crash_threshold" default:"2" min:"1"`
	// BlockCycleThreshold of blocking and unblocking within a day.
	BlockCycleThreshold int `yaml:"block_cycle_threshold" default:"3" min:"1"`
	// StrandedThreshold is how long a card with a lane may be ready before that is a finding.
	StrandedThreshold time.Duration `yaml:"stranded_threshold" default:"30m" min:"1s"`
}

// Memory is when memory counts as short. Elevated allows one start in ten seconds, critical none.
type Memory struct {
	// Check may be false, so that memory is never looked at.
	Check bool `yaml:"check" default:"true"`
	// ElevatedPercent and CriticalPercent of all memory: with less than that available it is short; 0 is off.
	ElevatedPercent int `yaml:"elevated_percent" default:"10" max:"100"`
	CriticalPercent int `yaml:"critical_percent" default:"4" max:"100"`
	// ElevatedStall is the percentage of the last ten seconds in which some task waited for memory, CriticalStall in which
	// all did; 0 is off.
	ElevatedStall int `yaml:"elevated_stall" default:"20" max:"100"`
	CriticalStall int `yaml:"critical_stall" default:"20" max:"100"`
}

// Lane says how one kind of worker is started.
type Lane struct {
	// Preset is agent, command, claude, codex, gemini, opencode or hermes; empty with an argv is command.
	Preset string `yaml:"preset" oneof:"agent command claude codex gemini opencode hermes"`
	// Argv is the program and its words, with placeholders in braces that package worker fills in. It is required for
	// command, replaces the preset's own for the others, and has no meaning for agent.
	Argv []string `yaml:"argv"`
	// Env adds variables to the worker's environment.
	Env map[string]string `yaml:"env"`
	// EnvPass names variables of the daemon that the worker may see.
	EnvPass []string `yaml:"env_pass" kind:"envname"`
	// Workdir is where the worker runs; empty is the card's workspace.
	Workdir string `yaml:"workdir" kind:"path"`
	// MaxRuntime of one run; 0 is no limit. A card's own limit wins.
	MaxRuntime time.Duration `yaml:"max_runtime" default:"0s"`
	// MaxInProgress workers of this lane; 0 takes max_in_progress_per_lane.
	MaxInProgress int `yaml:"max_in_progress" default:"0"`
	// Pool is one of kanban.pools, whose places this lane's workers take; empty is none.
	Pool string `yaml:"pool"`
	// KillGrace between asking a worker to end and killing its tree.
	KillGrace time.Duration `yaml:"kill_grace" default:"5s"`
}

// Database is how new files are journalled. A file that is in WAL mode already stays in it.
type Database struct {
	// JournalMode is wal or delete; wal is given up by itself on a file system that cannot carry it.
	JournalMode string `yaml:"journal_mode" default:"wal" oneof:"wal delete"`
	// JournalModeForce is wal to insist on WAL where the file system looks unfit; the risk is the reader's.
	JournalModeForce string `yaml:"journal_mode_force" oneof:"wal"`
}

// Backup is the copies that the daemon makes of state.db and of every board, beside whoever writes them.
type Backup struct {
	// Every so often; 0 leaves backups to `gatewayd backup`.
	Every time.Duration `yaml:"every" default:"24h"`
	// At is a time of day in local time, as 03:30: one round a day then, instead of every so often; empty is every.
	At string `yaml:"at" kind:"clock"`
	// Keep so many of each database.
	Keep int `yaml:"keep" default:"7" min:"1" max:"10000"`
	// Dir is where they are kept; empty is the home's "backups" directory. Another disk is better.
	Dir string `yaml:"dir" kind:"path"`
}

// Respawn is how starts are slowed down that follow each other because the daemon keeps dying: whoever starts it again and again
// must not wear out the disk and the model's quota. A start counts when the run before it ended by itself or was killed; one after a
// stop, a restart that was asked for or an upgrade does not.
type Respawn struct {
	// Limit of such starts within Window; the next one waits. 0 never waits.
	Limit int `yaml:"limit" default:"5" max:"1000"`
	// Window is also how long a run must last to end the storm.
	Window time.Duration `yaml:"window" default:"120s" min:"1s" max:"24h"`
	// FirstWait is doubled with each further start of the storm, up to LongestWait.
	FirstWait time.Duration `yaml:"first_wait" default:"5s" min:"1s" max:"1h"`
	// LongestWait is short enough that a person who mends the cause sees it run soon.
	LongestWait time.Duration `yaml:"longest_wait" default:"300s" min:"1s" max:"1h"`
}

// Log is how the daemon speaks.
type Log struct {
	// Level is debug, info, warn or error.
	Level string `yaml:"level" default:"info" oneof:"debug info warn error"`
	// Format is auto, json, text or journal; auto takes journal under systemd, text on a terminal, else json.
	Format string `yaml:"format" default:"auto" oneof:"auto json text journal"`
}

// Default gives the built-in settings, with the home and the board root still empty.
func Default() Config {
	var c Config
	applyDefaults(&c)
	return c
}
