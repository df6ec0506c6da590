package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/internal/problem"
	"gatewayd/kanban"
	"gatewayd/kanban/dispatch"
	"gatewayd/kanban/worker"
)

func (c *cli) whyVerb() *cobra.Command {
	v := &boardVerbs{cli: c}
	cmd := c.readVerb(&cobra.Command{
		Use: "why [CARD]", Short: "Say why a card is not running, or why every waiting card of a board is not",
		Args: between(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
				cards, err := waiting(ctx, b, args)
				if err != nil {
					return err
				}
				ask, err := c.whyAsker(h, b)
				if err != nil {
					return err
				}
				answers := make([]dispatch.Why, 0, len(cards))
				for _, card := range cards {
					why, err := ask(ctx, card)
					if err != nil {
						return err
					}
					answers = append(answers, why)
				}
				return c.emit(answers, func(w io.Writer) {
					if len(answers) == 0 {
						fmt.Fprintf(w, "board %s: no card is waiting\n", b.Slug())
					}
					for _, why := range answers {
						printWhy(w, why)
					}
				})
			})
		},
	})
	cmd.Flags().StringVar(&v.slug, "board", "", "board (default: the current one)")
	return cmd
}

// waiting gives the named card, or every card of the board that is neither running nor at its end.
func waiting(ctx context.Context, b *kanban.Board, named []string) ([]string, error) {
	if len(named) > 0 {
		_, err := b.Task(ctx, named[0])
		return named, err
	}
	tasks, err := b.List(ctx, kanban.Filter{})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, t := range tasks {
		if t.Status != kanban.StatusRunning && t.Status != kanban.StatusDone {
			ids = append(ids, t.ID)
		}
	}
	return ids, nil
}

// whyAsker asks the daemon, which knows its caps and locks. Without one, that is the first thing that holds a card,
// and the rest is read from the board alone.
func (c *cli) whyAsker(h house, b *kanban.Board) (func(context.Context, string) (dispatch.Why, error), error) {
	lanes, err := worker.NewLanes(h.Kanban, h.Model.APIKeyEnv)
	if err != nil {
		return nil, err
	}
	cl, absent := c.dial()
	return func(ctx context.Context, card string) (why dispatch.Why, err error) {
		if absent == nil {
			absent = cl.call(ctx, http.MethodGet, "/api/boards/"+string(b.Slug())+"/tasks/"+card+"/why", nil, &why)
		}
		if absent == nil || !problem.Is(absent, problem.NotRunning) {
			return why, absent
		}
		return explainAlone(ctx, h, lanes, b, card)
	}, nil
}

func explainAlone(ctx context.Context, h house, lanes *worker.Lanes, b *kanban.Board, card string) (dispatch.Why, error) {
	facts, err := dispatch.Facts(ctx, b, card)
	if err != nil {
		return dispatch.Why{}, err
	}
	return dispatch.Explain(facts, dispatch.Situation{
		Now: time.Now(), Lanes: lanes, DefaultAssignee: h.Kanban.DefaultAssignee, Limits: dispatch.DefaultLimits(h.Kanban.RateLimitCooldown),
		Dispatcher: &dispatch.Hold{
			Reason: dispatch.NoDispatcher, Detail: "no daemon runs for home " + h.Home, Remedy: "start it: gatewayd --foreground",
		},
	}), nil
}

func printWhy(w io.Writer, why dispatch.Why) {
	fmt.Fprintf(w, "%s %s  %s\n", statusIcon(string(why.Status)), line(why.Task), why.Status)
	for _, hold := range why.Holds {
		fmt.Fprintf(w, "    %s: %s\n", hold.Reason, strings.TrimSpace(indented(hold.Detail, "        ")))
		if hold.Since != nil {
			fmt.Fprintf(w, "        since %s\n", when(*hold.Since))
		}
		if hold.Until != nil {
			fmt.Fprintf(w, "        until %s\n", when(*hold.Until))
		}
		if hold.Remedy != "" {
			fmt.Fprintf(w, "        remedy: %s\n", line(hold.Remedy))
		}
	}
}

// printDispatcher is the board part of `gatewayd status`.
func printDispatcher(w io.Writer, d dispatch.Status) {
	fmt.Fprintf(w, "workers: %d running, %s\n", d.InProgress, atMost(d.MaxInProgress))
	for _, p := range d.Pools {
		fmt.Fprintf(w, "pool %s: %d of %d places taken\n", p.Name, p.Taken, p.Places)
	}
	if m := d.Memory; m.Level == "elevated" || m.Level == "critical" {
		fmt.Fprintf(w, "memory is %s: %s\n", m.Level, m.Detail)
	}
	if d.Outside != nil {
		fmt.Fprintf(w, "dispatcher is held: %s\n", firstHold([]dispatch.Hold{*d.Outside}))
	}
	table(w, func(row func(...any)) {
		for _, b := range d.Boards {
			row("board "+b.Slug, b.State, fmt.Sprintf("%d running, %d ready", b.Running, b.Ready), boardHolds(b))
		}
		for _, l := range d.Lanes {
			row("lane "+l.Name, l.Preset, fmt.Sprintf("%d running", l.Running), firstHold(l.Holds))
		}
	})
}

func atMost(n int) string {
	if n == 0 {
		return "no limit"
	}
	return fmt.Sprintf("at most %d", n)
}

// boardHolds says what keeps a board, or its ready cards, from being served.
func boardHolds(b dispatch.BoardStatus) string {
	if b.Hold != nil {
		return firstHold([]dispatch.Hold{*b.Hold})
	}
	var counts []string
	for _, reason := range slices.Sorted(maps.Keys(b.Holds)) {
		counts = append(counts, fmt.Sprintf("%d %s", b.Holds[reason], reason))
	}
	return strings.Join(counts, ", ")
}

func firstHold(holds []dispatch.Hold) string {
	if len(holds) == 0 {
		return ""
	}
	h := holds[0]
	since := ""
	if h.Since != nil {
		since = " since " + when(*h.Since)
	}
	said := fmt.Sprintf("%s%s: %s", h.Reason, since, h.Detail)
	if h.Remedy != "" {
		said += "; " + h.Remedy
	}
	return line(said)
}
