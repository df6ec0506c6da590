package dispatch

import "time"

// Reason names what holds a card back. The same words stand in JSON, logs and docs.
type Reason string

const (
	DispatchOff      Reason = "dispatch_off"      // kanban.dispatch is false
	NoDispatcher     Reason = "no_dispatcher"     // nobody holds the dispatcher's lock
	NotLeader        Reason = "not_leader"        // another process holds it
	BoardDisabled    Reason = "board_disabled"    // its file is damaged
	BoardUnavailable Reason = "board_unavailable" // it could not be opened or read just now
	BoardLocked      Reason = "board_locked"      // another process is in its tick on this board
	BoardPaused      Reason = "board_paused"      // somebody paused or drains it

	Triage      Reason = "triage"
	ParentsOpen Reason = "parents_open"
	Scheduled   Reason = "scheduled"
	Blocked     Reason = "blocked"
	Running     Reason = "running"
	Claimed     Reason = "claimed" // ready, but with a claim on it
	Ended       Reason = "ended"
	UnknownWord Reason = "unknown_status"

	Unassigned     Reason = "unassigned"
	NoLane         Reason = "no_lane"
	ProgramMissing Reason = "program_missing"
	NoModel        Reason = "no_model"
	LaneBackoff    Reason = "lane_backoff"
	ReviewOff      Reason = "review_off" // kanban.review_dispatch is false

	InfrastructureCooldown Reason = "infrastructure_cooldown" // the host refused the last start
	RateLimitCooldown      Reason = "rate_limit_cooldown"
	BlockerAuth            Reason = "blocker_auth"
	RecentSuccess          Reason = "recent_success"
	ActivePR               Reason = "active_pr"       // a comment names a pull request that may be this card's
	PreviousWorker         Reason = "previous_worker" // the worker of an earlier run still lives

	LaneCap   Reason = "lane_cap"
	PoolCap   Reason = "pool_cap"
	BoardCap  Reason = "board_cap"
	GlobalCap Reason = "global_cap"

	MemoryElevated Reason = "memory_elevated" // one start in a while
	MemoryCritical Reason = "memory_critical" // none

	NextTick Reason = "next_tick" // nothing holds it
)

// Hold is one gate that a card does not pass.
type Hold struct {
	Reason Reason     `json:"reason"`
	Detail string     `json:"detail"`
	Since  *time.Time `json:"since,omitempty"`
	Until  *time.Time `json:"until,omitempty"` // when it passes by itself; absent = not by itself
	Remedy string     `json:"remedy,omitempty"`
}

// at makes an optional time of epoch seconds; zero is none.
func at(seconds int64) *time.Time {
	if seconds <= 0 {
		return nil
	}
	t := time.Unix(seconds, 0)
	return &t
}

func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
