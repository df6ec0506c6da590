package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/config"
	"gatewayd/internal/problem"
	"gatewayd/kanban"
	"gatewayd/sessiondb"
)

// insights are a window of the conversations and of the boards.
type insights struct {
	sessiondb.Insights
	Zone   string            `json:"zone"` // of the days
	Boards []kanban.Insights `json:"boards"`
}

func (c *cli) insightsVerb() *cobra.Command {
	var days int
	var since, until string
	cmd := c.readVerb(&cobra.Command{
		Use: "insights", Short: "Count sessions, turns, tools, tokens, cost and cards of a window",
		Long: "Counts what is kept of a window: the last 30 days, or as --days, --since and --until say. Days are those of this machine's zone, with --json those of UTC.\n" +
			"Costs need model.prices in the configuration; a model without a price is told as unknown. Rows that make no sense are named and skipped.",
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			now := time.Now()
			if c.json {
				now = now.UTC()
			}
			from, to, err := windowOf(days, since, until, now)
			if err != nil {
				return err
			}
			found, err := c.insights(cmd.Context(), from, to, now.Location())
			if err != nil {
				return err
			}
			return c.emit(found, func(w io.Writer) { printInsights(w, found) })
		},
	})
	cmd.Flags().IntVar(&days, "days", sessiondb.DefaultDays, "so many days, today included")
	cmd.Flags().StringVar(&since, "since", "", "begin here: 90s, 2h, 3d, a date or a moment")
	cmd.Flags().StringVar(&until, "until", "", "end before this")
	cmd.MarkFlagsMutuallyExclusive("days", "since")
	return cmd
}

// windowOf reads the flags.
func windowOf(days int, since, until string, now time.Time) (from, to time.Time, err error) {
	if days < 1 || days > sessiondb.MaxDays {
		return from, to, usagef("--days must be from 1 to %d, not %d", sessiondb.MaxDays, days)
	}
	if from, err = timeOf("since", since, now); err != nil {
		return from, to, err
	}
	if to, err = timeOf("until", until, now); err != nil {
		return from, to, err
	}
	from, to = sessiondb.WindowOf(days, from, to, now)
	if !to.After(from) {
		return from, to, usagef("--until must be later than the beginning of the window, which is %s", when(from))
	}
	return from, to, nil
}

// insights reads the files of the home, beside a daemon or without one. A home without conversations may have boards.
func (c *cli) insights(ctx context.Context, from, to time.Time, zone *time.Location) (insights, error) {
	loaded, err := c.load()
	if err != nil {
		return insights{}, err
	}
	window := sessiondb.Window{Since: from, Until: to, Zone: zone, Price: pricesOf(loaded.Config)}
	found := insights{Insights: sessiondb.NoInsights(window), Zone: zone.String(), Boards: []kanban.Insights{}}
	err = c.onStore(ctx, func(ctx context.Context, s *sessiondb.Store) (err error) {
		found.Insights, err = s.Insights(ctx, window)
		return err
	})
	if err != nil && !problem.Is(err, problem.NotFound) {
		return insights{}, err
	}
	v := &boardVerbs{cli: c}
	h, err := v.openRoot()
	if problem.Is(err, problem.NotFound) {
		return found, nil
	}
	if err != nil {
		return insights{}, err
	}
	defer func() { _ = h.root.Close() }()
	list, err := h.root.Boards()
	found.Boards = kanban.InsightsOf(ctx, withFile(list), from, to, v.opener(h))
	return found, err
}

func withFile(list []kanban.Info) []kanban.Info {
	return slices.DeleteFunc(list, func(i kanban.Info) bool { return !i.HasFile })
}

// insights answers the API: days are those of UTC.
func (d *daemon) insights(ctx context.Context, from, to time.Time) (any, error) {
	said, err := d.store.Insights(ctx, sessiondb.Window{Since: from, Until: to, Price: pricesOf(d.config.Config)})
	if err != nil {
		return nil, err
	}
	list, err := d.root.Boards()
	if err != nil {
		return nil, err
	}
	boards := kanban.InsightsOf(ctx, withFile(list), from, to, boardDoor{d.root, d}.Acquire)
	return insights{Insights: said, Zone: time.UTC.String(), Boards: boards}, nil
}

func pricesOf(cfg config.Config) func(string) (sessiondb.Price, bool) {
	return func(model string) (sessiondb.Price, bool) {
		p, ok := cfg.Model.Prices[model]
		return sessiondb.Price(p), ok
	}
}

func printInsights(w io.Writer, i insights) {
	fmt.Fprintf(w, "%s to %s\n\n", when(i.Since), when(i.Until))
	fmt.Fprintf(w, "%s, %s, %s\n", many(i.Sessions, "session"), many(i.Turns, "turn"), many(i.Messages, "message"))
	if len(i.Sources) > 0 {
		fmt.Fprintf(w, "sessions from %s\n", named(i.Sources))
	}
	printModels(w, i.Insights)
	if len(i.Tools) > 0 {
		fmt.Fprintln(w)
		table(w, func(row func(...any)) {
			row("TOOL", "CALLS", "FAILED", "TIME EACH")
			for _, t := range i.Tools[:min(len(i.Tools), 20)] {
				row(t.Tool, t.Calls, t.Failed, each(t))
			}
		})
	}
	printBusiest(w, i.Days)
	printBoardInsights(w, i.Boards)
	for n, o := range i.Odd {
		if n == 0 {
			fmt.Fprintln(w, "\nnot counted, because they make no sense:")
		}
		fmt.Fprintf(w, "  %d × %s, such as %s\n", o.Count, o.What, line(o.Example))
	}
}

func named(list []sessiondb.Named) string {
	var words []string
	for _, n := range list[:min(len(list), 10)] {
		words = append(words, fmt.Sprintf("%s %d", line(n.Name), n.Count))
	}
	return strings.Join(words, ", ")
}

func each(t sessiondb.ToolUse) string {
	if t.Timed == 0 {
		return "-"
	}
	return time.Duration(t.Seconds / float64(t.Timed) * float64(time.Second)).Round(time.Millisecond).String()
}

func printModels(w io.Writer, i sessiondb.Insights) {
	if len(i.Models) == 0 {
		return
	}
	fmt.Fprintln(w)
	table(w, func(row func(...any)) {
		row("MODEL", "CALLS", "IN", "CACHED", "OUT", "REASONING", "COST")
		for _, m := range i.Models {
			cost := "unknown"
			if m.Cost != nil {
				cost = fmt.Sprintf("%.2f", *m.Cost)
			}
			row(strings.TrimSpace(m.Model+" "+m.Task), m.Calls, m.Prompt, m.Cached, m.Completion, m.Reasoning, cost)
		}
	})
	fmt.Fprintf(w, "cost: %.2f", i.Cost.Known)
	if n := len(i.Cost.Unpriced); n > 0 {
		fmt.Fprintf(w, " and what %s without a price cost: name it in model.prices", many(n, "model"))
	}
	fmt.Fprintln(w)
	if i.Earlier > 0 {
		fmt.Fprintf(w, "%s of these began before the window and count as a whole\n", many(i.Earlier, "sum"))
	}
}

func printBusiest(w io.Writer, days []sessiondb.Day) {
	if len(days) == 0 {
		return
	}
	busiest := slices.Clone(days)
	slices.SortStableFunc(busiest, func(a, b sessiondb.Day) int { return int(b.Messages - a.Messages) })
	fmt.Fprintln(w)
	table(w, func(row func(...any)) {
		row("BUSIEST DAY", "SESSIONS", "TURNS", "MESSAGES")
		for _, d := range busiest[:min(len(busiest), 7)] {
			row(d.Day, d.Sessions, d.Turns, d.Messages)
		}
	})
}

func printBoardInsights(w io.Writer, boards []kanban.Insights) {
	if len(boards) == 0 {
		return
	}
	fmt.Fprintln(w)
	table(w, func(row func(...any)) {
		row("BOARD", "MADE", "DONE", "RUNS", "COMPLETED", "SKIPPED", "")
		for _, b := range boards {
			row(b.Board, b.Made, b.Done, b.Runs, b.Ends["completed"], b.Odd, short(b.Trouble))
		}
	})
}
