package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/kanban"
)

func (v *boardVerbs) listVerb() *cobra.Command {
	var f kanban.Filter
	var status string
	cmd := v.readVerb(&cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List the cards of a board", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, _ house, b *kanban.Board) error {
			f.Status = kanban.Status(status)
			tasks, err := b.List(ctx, f)
			if err != nil {
				return err
			}
			return v.emit(tasks, func(w io.Writer) {
				for _, t := range tasks {
					printCard(w, t)
				}
			})
		})
	}})
	cmd.Flags().StringVar(&f.Assignee, "assignee", "", "only this lane's cards")
	cmd.Flags().StringVar(&status, "status", "", "only cards in this status")
	cmd.Flags().StringVar(&f.Tenant, "tenant", "", "only this tenant's cards")
	cmd.Flags().BoolVar(&f.Archived, "archived", false, "archived cards too")
	return cmd
}

// printCard is one line of a list, in the format that Hermes' users know.
func printCard(w io.Writer, t kanban.Task) {
	tenant := ""
	if t.Tenant != "" {
		tenant = " [" + t.Tenant + "]"
	}
	fmt.Fprintf(w, "%s %s  %-8s  %-20s%s  %s\n", statusIcon(string(t.Status)), t.ID, t.Status, t.Assignee, tenant, t.Title)
}

func (v *boardVerbs) showVerb() *cobra.Command {
	return v.readVerb(&cobra.Command{Use: "show CARD", Short: "Print a card with its runs, comments and history", Args: cobra.MaximumNArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
			id, err := h.card(args)
			if err != nil {
				return err
			}
			d, err := b.Show(ctx, id)
			if err != nil {
				return err
			}
			return v.emit(d, func(w io.Writer) { printDetail(w, d) })
		})
	}})
}

func printDetail(w io.Writer, d kanban.Detail) {
	printCard(w, d.Task)
	if d.Task.Body != "" {
		fmt.Fprintf(w, "\n%s\n", d.Task.Body)
	}
	if d.Task.Result != "" {
		fmt.Fprintf(w, "\nresult: %s\n", d.Task.Result)
	}
	if d.Task.LastFailureError != "" {
		fmt.Fprintf(w, "\nlast failure: %s\n", d.Task.LastFailureError)
	}
	section(w, "parents", d.Parents, func(id string) { fmt.Fprintln(w, " ", id) })
	section(w, "children", d.Children, func(id string) { fmt.Fprintln(w, " ", id) })
	section(w, "runs", d.Runs, func(r kanban.Run) { printRun(w, r) })
	section(w, "comments", d.Comments, func(c kanban.Comment) {
		fmt.Fprintf(w, "  %s  %s: %s\n", epoch(c.CreatedAt), c.Author, c.Body)
	})
	section(w, "events", d.Events, func(e kanban.Event) { printEvent(w, e) })
}

func section[T any](w io.Writer, title string, items []T, show func(T)) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	for _, item := range items {
		show(item)
	}
}

func printRun(w io.Writer, r kanban.Run) {
	outcome := r.Outcome
	if r.Open() {
		outcome = "running"
	}
	fmt.Fprintf(w, "  #%d  %s  %-12s %s %s\n", r.ID, epoch(r.StartedAt), outcome, r.Profile, r.Summary+r.Error)
}

func printEvent(w io.Writer, e kanban.Event) {
	fmt.Fprintf(w, "  %d  %s  %s  %s  %s\n", e.ID, epoch(e.CreatedAt), e.TaskID, e.Kind, e.Payload)
}

func epoch(seconds int64) string { return when(time.Unix(seconds, 0)) }

func (v *boardVerbs) runsVerb() *cobra.Command {
	return v.readVerb(&cobra.Command{Use: "runs CARD", Short: "Print a card's attempts", Args: cobra.MaximumNArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
			id, err := h.card(args)
			if err != nil {
				return err
			}
			runs, err := b.Runs(ctx, id)
			if err != nil {
				return err
			}
			return v.emit(runs, func(w io.Writer) {
				for _, r := range runs {
					printRun(w, r)
				}
			})
		})
	}})
}

func (v *boardVerbs) eventsVerb() *cobra.Command {
	var after int64
	var limit int
	cmd := v.readVerb(&cobra.Command{Use: "events", Short: "Print a board's history", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, _ house, b *kanban.Board) error {
			events, err := b.Events(ctx, after, limit)
			if err != nil {
				return err
			}
			return v.emit(events, func(w io.Writer) {
				for _, e := range events {
					printEvent(w, e)
				}
			})
		})
	}})
	cmd.Flags().Int64Var(&after, "after", 0, "only events with a larger id")
	cmd.Flags().IntVar(&limit, "limit", 200, "how many at most")
	return cmd
}

func (v *boardVerbs) statsVerb() *cobra.Command {
	return v.readVerb(&cobra.Command{Use: "stats", Short: "Count a board's cards", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, _ house, b *kanban.Board) error {
			stats, err := b.Stats(ctx)
			if err != nil {
				return err
			}
			return v.emit(stats, func(w io.Writer) {
				for _, status := range kanban.Statuses() {
					fmt.Fprintf(w, "%s %-10s %d\n", statusIcon(string(status)), status, stats.ByStatus[string(status)])
				}
			})
		})
	}})
}

func (v *boardVerbs) contextVerb() *cobra.Command {
	return v.readVerb(&cobra.Command{Use: "context [CARD]", Short: "Print what a worker is told about a card", Args: cobra.MaximumNArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
			id, err := h.card(args)
			if err != nil {
				return err
			}
			text, err := b.Context(ctx, id)
			if err != nil {
				return err
			}
			return v.emit(map[string]string{"task": id, "text": text}, func(w io.Writer) { fmt.Fprintln(w, text) })
		})
	}})
}
