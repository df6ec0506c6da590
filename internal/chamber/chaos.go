package chamber

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatewayd/internal/problem"
)

// Verdict is what a bounded torture of one directory has shown.
type Verdict struct {
	Safe     bool          `json:"safe"`
	Place    Place         `json:"place"`
	Totals   Totals        `json:"totals"`
	Results  []Result      `json:"episodes"`
	Seed     uint64        `json:"seed"`
	Took     time.Duration `json:"took_ns"`
	Skipped  []string      `json:"skipped,omitempty"` // what this machine has not got
	Findings []string      `json:"findings,omitempty"`
}

// Plan says how much a Chaos plays.
type Plan struct {
	Limit time.Duration // no episode is begun after it, but the first round is played in any case
	Only  string        // this episode alone, once
	Seed  uint64        // of the first round; each next one has the next
}

// Chaos looks at the directory and then plays the shared episodes in it, round after round. The error says that it could
// not be done; a place that proves to be unsafe is in the verdict.
func Chaos(ctx context.Context, o Options, plan Plan) (v Verdict, err error) {
	episodes := Shared()
	if plan.Only != "" {
		one, ok := Find(plan.Only)
		if !ok {
			return v, &problem.Error{Kind: problem.Invalid, Thing: "episode " + plan.Only, What: "does not exist", Fate: "nothing was done", Remedy: "run it without --episode: each one is named as it ends"}
		}
		episodes, plan.Limit = []Episode{one}, 0
	}
	o.Seed = plan.Seed
	c, err := New(o)
	if err != nil {
		return v, err
	}
	began := time.Now()
	defer func() {
		if cerr := c.Close(); cerr != nil && err == nil {
			v.Safe, v.Findings = false, append(v.Findings, cerr.Error())
		}
	}()
	if v.Place, err = c.Look(ctx); err != nil {
		return v, err
	}
	v.Findings, v.Seed = append(v.Findings, v.Place.Findings...), c.Seed
	for round := uint64(0); round == 0 || time.Since(began) < plan.Limit; round++ {
		for _, e := range episodes {
			if !e.In(c.Mode) || round > 0 && time.Since(began) > plan.Limit {
				continue
			}
			c.Seed = v.Seed + round
			r := c.Run(ctx, e)
			if ctx.Err() != nil {
				return v, errors.New("interrupted: nothing was shown")
			}
			v.add(c, r)
			if r.Failed() {
				v.end(c, began)
				return v, nil
			}
		}
	}
	v.end(c, began)
	return v, nil
}

func (v *Verdict) add(c *Chamber, r Result) {
	sign := "✓"
	if r.Failed() {
		sign = "✗"
	}
	c.Say("%s %-24s %5.1f s  %d rows and %d cards acknowledged so far", sign, r.Label, r.Took.Seconds(), c.Totals.Acked, c.Totals.Cards)
	for _, what := range r.Failures {
		v.Findings = append(v.Findings, r.Label+": "+what)
	}
	if len(v.Skipped) == 0 {
		v.Skipped = r.Skipped
	}
	v.Results = append(v.Results, r)
}

func (v *Verdict) end(c *Chamber, began time.Time) {
	v.Totals, v.Took, v.Safe = c.Totals, time.Since(began), len(v.Findings) == 0
}

// Words say it to a person.
func (v Verdict) Words() (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if v.Safe {
		say("This place is safe for a store.")
	} else {
		say("This place is NOT safe for a store.")
	}
	say("  place    %s", v.Place.Dir)
	say("  disk     %s; %s", v.Place.FileSystem, v.Place.SyncWords())
	say("  journal  %s: %s", v.Place.Mode, v.Place.Reason)
	say("  locks    %s", v.Place.Locks)
	say("  done     %d episodes in %.0f s: %d processes, %d of them killed with kill -9 in the middle of their work",
		v.Totals.Episodes, v.Took.Seconds(), v.Totals.Started, v.Totals.Kills)
	say("  checked  %d acknowledged rows and %d cards after each episode, and %d times who holds which file", v.Totals.Acked, v.Totals.Cards, v.Totals.Scans)
	if v.Safe {
		say("  found    each acknowledged row exactly once, files and search index whole, nothing that was never written")
	}
	for _, what := range v.Findings {
		say("  found    %s", what)
	}
	for _, what := range v.Skipped {
		say("  not done %s", what)
	}
	return lines
}
