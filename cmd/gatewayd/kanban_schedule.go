package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/kanban"
)

func (v *boardVerbs) scheduleVerb() *cobra.Command {
	var run int64
	var plan kanban.Schedule
	var at, zone string
	var in time.Duration
	cmd := v.reasoned("schedule CARD [REASON...]", "Park a card until a time, or make it the pattern of cards that come back", atLeast(1), func(ctx context.Context, o order, card string) (_ outcome, err error) {
		plan.Reason = o.rest
		if plan.Run, err = o.fence(card, run); err != nil {
			return outcome{}, err
		}
		if plan.Due, err = due(at, in, zone); err != nil {
			return outcome{}, err
		}
		if plan.Rule != "" || at == "" {
			plan.Zone = zone
		}
		timer, err := o.Schedule(ctx, card, plan)
		return outcome{says: card + " " + timerWords(timer), beside: map[string]any{"timer": timer}}, err
	})
	f := cmd.Flags()
	f.StringVar(&at, "at", "", `when it wakes: "2026-12-24 09:30" in --zone, or 2026-12-24T09:30:00Z`)
	span(f, &in, "in", 0, "wake it so long from now: 30s, 15m, 2h, 1d")
	f.StringVar(&plan.Rule, "rule", "", `make a copy of it at each of these times: five cron fields such as "0 9 * * 1", or @daily`)
	f.StringVar(&zone, "zone", "", "zone of --at and --rule, such as Europe/Berlin (default: here for --at, UTC for --rule)")
	return fenced(cmd, &run)
}

// due is the moment that the flags name, or none.
func due(at string, in time.Duration, zone string) (time.Time, error) {
	switch {
	case at != "" && in != 0:
		return time.Time{}, usagef("--at and --in both say when; give one of the two")
	case in != 0:
		return time.Now().Add(in), nil
	case at != "":
		return kanban.ParseDue(at, zone, time.Now())
	}
	return time.Time{}, nil
}

func timerWords(t kanban.Timer) string {
	switch {
	case t.Rule != "":
		zone := t.Zone
		if zone == "" {
			zone = "UTC"
		}
		return fmt.Sprintf("makes a copy of itself by %s (%s), next at %s", line(t.Rule), line(zone), epoch(t.Due))
	case t.Due != 0:
		return "is scheduled for " + epoch(t.Due)
	}
	return "is parked until a person unblocks it"
}

func (v *boardVerbs) timersVerb() *cobra.Command {
	return v.readVerb(&cobra.Command{Use: "timers", Short: "List the times of scheduled cards", Args: exactly(0), RunE: func(cmd *cobra.Command, _ []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, _ house, b *kanban.Board) error {
			timers, err := b.Timers(ctx)
			if err != nil {
				return err
			}
			v.none(len(timers), "board %s: no card waits for a time", b.Slug())
			return v.emit(append([]kanban.Timer{}, timers...), func(w io.Writer) {
				for _, t := range timers {
					fmt.Fprintf(w, "%s %s\n", line(t.Task), timerWords(t))
				}
			})
		})
	}})
}
