package dispatch

import (
	"testing"
	"time"

	"gatewayd/kanban"
)

func attempts(now time.Time, outcome, text string, ages ...time.Duration) []Attempt {
	var list []Attempt
	for _, age := range ages {
		list = append(list, Attempt{Outcome: outcome, Error: text, Ended: now.Add(-age)})
	}
	return list
}

func TestGuards(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	limits := DefaultLimits(300 * time.Second)
	many := make([]time.Duration, 20)
	for i := range many {
		many[i] = time.Duration(i+1) * time.Minute
	}
	const limited, failed = kanban.OutcomeRateLimited, kanban.OutcomeSpawnFailed
	for name, c := range map[string]struct {
		h     History
		hold  Reason
		block string
	}{
		"first run":                  {History{}, "", ""},
		"rate limited just now":      {History{Attempts: attempts(now, limited, "", 299*time.Second)}, RateLimitCooldown, ""},
		"cooldown over":              {History{Attempts: attempts(now, limited, "", 300*time.Second), LastFailure: "rate limit"}, "", ""},
		"rate limited for 20 runs":   {History{Attempts: attempts(now, limited, "", many...)}, "", kanban.BlockTransient},
		"rate limited for 6 hours":   {History{Attempts: attempts(now, limited, "", time.Minute, 6*time.Hour)}, "", kanban.BlockTransient},
		"one old rate limit":         {History{Attempts: attempts(now, limited, "", 7*time.Hour)}, "", ""},
		"refused once":               {History{Attempts: attempts(now, failed, "401 Unauthorized", 4*time.Minute), LastFailure: "Unauthorized"}, BlockerAuth, ""},
		"refused once, probe due":    {History{Attempts: attempts(now, failed, "Unauthorized", 5*time.Minute), LastFailure: "Unauthorized"}, "", ""},
		"refused twice":              {History{Attempts: attempts(now, failed, "invalid API key", 9*time.Minute, time.Hour), LastFailure: "invalid API key"}, BlockerAuth, ""},
		"refused twice, probe due":   {History{Attempts: attempts(now, failed, "invalid API key", 10*time.Minute, time.Hour), LastFailure: "invalid API key"}, "", ""},
		"refused after three probes": {History{Attempts: attempts(now, failed, "quota", 1, 2, 3, 4), LastFailure: "quota exceeded"}, "", kanban.BlockCapability},
		"a crash is the breaker's":   {History{Attempts: attempts(now, kanban.OutcomeCrashed, "403", time.Second), LastFailure: "403"}, "", ""},
		"a word inside a word":       {History{Attempts: attempts(now, failed, "x", time.Second), LastFailure: "author unknown, 14031"}, "", ""},
		"completed within the hour":  {History{Attempts: attempts(now, kanban.OutcomeCompleted, "", 59*time.Minute)}, RecentSuccess, ""},
		"completed an hour ago":      {History{Attempts: attempts(now, kanban.OutcomeCompleted, "", time.Hour)}, "", ""},
		"refused by the host":        {History{Attempts: attempts(now, failed, hostFault+"no processes", 29*time.Second)}, InfrastructureCooldown, ""},
		"refused by the host, over":  {History{Attempts: attempts(now, failed, hostFault+"no processes", 30*time.Second)}, "", ""},
		"refused by it for long":     {History{Attempts: attempts(now, failed, hostFault+"x", 119*time.Second, time.Hour, 2*time.Hour)}, InfrastructureCooldown, ""},
		"limited, and unblocked":     {History{Attempts: attempts(now, limited, "", many...), LastHandoff: now.Add(-90 * time.Second)}, RateLimitCooldown, ""},
		"refused, and unblocked":     {History{Attempts: attempts(now, failed, "quota", time.Minute, 2*time.Minute, 3*time.Minute, 4*time.Minute), LastFailure: "quota", LastHandoff: now.Add(-90 * time.Second)}, BlockerAuth, ""},
		"completed, now in review":   {History{Attempts: attempts(now, kanban.OutcomeCompleted, "", time.Minute), Review: true}, "", ""},
		"completed and reopened":     {History{Attempts: attempts(now, kanban.OutcomeCompleted, "", time.Minute), LastHandoff: now}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := Guard(c.h, limits, now)
			var got Reason
			if g.Hold != nil {
				got = g.Hold.Reason
				if g.Hold.Until == nil || !g.Hold.Until.After(now) || g.Hold.Remedy == "" {
					t.Errorf("a guard must end and say what to do: %+v", g.Hold)
				}
			}
			if got != c.hold || g.Block != c.block {
				t.Errorf("hold %q block %q, want %q %q", got, g.Block, c.hold, c.block)
			}
		})
	}
	off := History{Attempts: attempts(now, limited, "", time.Second)}
	if g := Guard(off, DefaultLimits(0), now); g != (Guarded{}) {
		t.Errorf("a cooldown of 0 still guards: %+v", g)
	}
}
