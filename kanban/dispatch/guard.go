package dispatch

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"gatewayd/kanban"
)

// Attempt is one closed run of a card, as the guards see it.
type Attempt struct {
	Outcome string
	Error   string
	Ended   time.Time
}

// History is what the guards know of a card, newest attempt first.
type History struct {
	Attempts    []Attempt
	LastFailure string    // last_failure_error
	LastHandoff time.Time // newest status, promoted, unblocked or reclaimed event
	Review      bool      // it waits for a reviewer: what was completed before is what is reviewed
}

// Limits bound the guards: no card is held, and none retried, for ever.
type Limits struct {
	Cooldown      time.Duration // after a rate limit; ≤ 0 switches it off
	RateLimitRuns int           // after so many in a row …
	RateLimitFor  time.Duration // … or after so long the card is blocked
	AuthProbes    int           // so many tries against a refusing provider, then the card is blocked
}

// DefaultLimits are the bounds without settings of their own.
func DefaultLimits(cooldown time.Duration) Limits {
	return Limits{Cooldown: cooldown, RateLimitRuns: 20, RateLimitFor: 6 * time.Hour, AuthProbes: 3}
}

// Guarded is a guard's decision: hold the card, or give it up with a block of this kind, or neither.
type Guarded struct {
	Hold    *Hold
	Block   string // kanban.Block… kind; "" = do not
	Because string // the block's reason
}

const (
	authFirst     = 5 * time.Minute
	authLongest   = time.Hour
	successWindow = time.Hour
	hostLongest   = 15 * time.Minute
)

// refusal finds failures that another try at once cannot cure.
var refusal = regexp.MustCompile(`(?i)\b(quota|rate[ _-]?limit(ed|s)?|429|403|auth(entication|orization|enticate|orize)?|unauthori[sz]ed|forbidden|billing|subscription|access denied|permission denied|invalid api key)\b`)

// Guard asks the respawn guards in their order; the first that speaks decides.
func Guard(h History, l Limits, now time.Time) Guarded {
	if hold := guardHost(h, now); hold != nil {
		return Guarded{Hold: hold}
	}
	if len(h.Attempts) > 0 && h.Attempts[0].Outcome == kanban.OutcomeRateLimited {
		return guardRateLimit(h, l, now)
	}
	if g := guardRefusal(h, l, now); g != (Guarded{}) {
		return g
	}
	if h.Review {
		return Guarded{}
	}
	return guardSuccess(h, now)
}

// hostFault begins the error of a start that the host refused: no process, no memory, no space. It is not the card's.
const hostFault = "infrastructure: "

// guardHost: a card whose start the host refused waits, longer each time in a row.
func guardHost(h History, now time.Time) *Hold {
	streak := leading(h.Attempts, func(a Attempt) bool {
		return a.Outcome == kanban.OutcomeSpawnFailed && strings.HasPrefix(a.Error, hostFault)
	})
	if len(streak) == 0 {
		return nil
	}
	last := streak[0].Ended
	until := last.Add(min(hostFirst<<min(len(streak)-1, 10), hostLongest))
	if !now.Before(until) {
		return nil
	}
	return &Hold{
		Reason: InfrastructureCooldown, Detail: "the host refused its last start: " + strings.TrimPrefix(streak[0].Error, hostFault),
		Since: when(last), Until: &until, Remedy: "look at the host's memory, processes and space; the card is tried again by itself",
	}
}

// since are the attempts after the card was last handed on: a person who unblocks it gives it all its tries again.
func (h History) since(streak []Attempt) []Attempt {
	return leading(streak, func(a Attempt) bool { return a.Ended.After(h.LastHandoff) })
}

// guardRateLimit: a card whose last run met a rate limit waits; when it has waited, no other guard may keep it,
// because the failure text says "rate limit" too.
func guardRateLimit(h History, l Limits, now time.Time) Guarded {
	streak := leading(h.Attempts, func(a Attempt) bool { return a.Outcome == kanban.OutcomeRateLimited })
	last, tries := streak[0].Ended, h.since(streak)
	if len(tries) == 0 {
		tries = streak[:1]
	}
	first := tries[len(tries)-1].Ended
	if len(tries) >= l.RateLimitRuns || now.Sub(first) >= l.RateLimitFor && len(tries) > 1 {
		return Guarded{Block: kanban.BlockTransient, Because: fmt.Sprintf("rate limited in %d runs in a row since %s", len(tries), first.UTC().Format(time.RFC3339))}
	}
	until := last.Add(l.Cooldown)
	if l.Cooldown <= 0 || !now.Before(until) {
		return Guarded{}
	}
	detail := "the last run met a rate limit"
	if len(streak) > 1 {
		detail = fmt.Sprintf("the last %d runs met a rate limit", len(streak))
	}
	return Guarded{Hold: &Hold{
		Reason: RateLimitCooldown, Detail: detail,
		Since: when(last), Until: &until, Remedy: "wait, or set kanban.rate_limit_cooldown",
	}}
}

// guardRefusal: a provider that refuses is asked again after 5, 10, 20 … minutes, a few times, and then a person
// is. A crash is the breaker's to judge, whatever its text says.
func guardRefusal(h History, l Limits, now time.Time) Guarded {
	if len(h.Attempts) == 0 || h.Attempts[0].Outcome == kanban.OutcomeCrashed || !refusal.MatchString(h.LastFailure) {
		return Guarded{}
	}
	streak := h.since(leading(h.Attempts, func(a Attempt) bool { return refusal.MatchString(a.Error) }))
	probes := max(len(streak)-1, 0)
	if probes >= l.AuthProbes {
		return Guarded{Block: kanban.BlockCapability, Because: fmt.Sprintf("refused %d times in a row: %.200s", len(streak), h.LastFailure)}
	}
	last := h.Attempts[0].Ended
	until := last.Add(min(authFirst<<probes, authLongest))
	if !now.Before(until) {
		return Guarded{}
	}
	return Guarded{Hold: &Hold{
		Reason: BlockerAuth, Detail: fmt.Sprintf("the last run was refused: %.200s", h.LastFailure),
		Since: when(last), Until: &until, Remedy: "give the lane working credentials; the card is tried again by itself",
	}}
}

// guardSuccess: a card that was completed within the hour and came back without anybody's act is not paid for twice.
func guardSuccess(h History, now time.Time) Guarded {
	for _, a := range h.Attempts {
		until := a.Ended.Add(successWindow)
		if a.Outcome != kanban.OutcomeCompleted || !now.Before(until) || h.LastHandoff.After(a.Ended) {
			continue
		}
		return Guarded{Hold: &Hold{
			Reason: RecentSuccess, Detail: "a run completed this card less than an hour ago, and nobody reopened it",
			Since: when(a.Ended), Until: &until, Remedy: "complete the card, or block and unblock it to have it done again",
		}}
	}
	return Guarded{}
}

// leading gives the attempts at the front that satisfy yes.
func leading(attempts []Attempt, yes func(Attempt) bool) []Attempt {
	for i, a := range attempts {
		if !yes(a) {
			return attempts[:i]
		}
	}
	return attempts
}
