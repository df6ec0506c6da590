package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/kanban"
)

// readVerbs only look.
func (v *boardVerbs) readVerbs() []*cobra.Command {
	return []*cobra.Command{v.listVerb(), v.showVerb(), v.runsVerb(), v.eventsVerb(), v.statsVerb(), v.contextVerb()}
}

func (v *boardVerbs) listVerb() *cobra.Command {
	var f kanban.Filter
	var status string
	var mine bool
	cmd := v.readVerb(&cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List the cards of a board", Args: exactly(0), RunE: func(cmd *cobra.Command, _ []string) error {
		if f.Status = kanban.Status(status); status != "" && !slices.Contains(kanban.Statuses(), f.Status) {
			return usagef("--status %q is not known; it is one of %s", status, join(kanban.Statuses()))
		}
		if mine && f.Assignee != "" {
			return usagef("--mine and --assignee both say whose; give one of the two")
		}
		if cmd.Flags().Changed("limit") {
			if err := checkLimit(f.Limit); err != nil {
				return err
			}
		}
		return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
			if mine {
				f.Assignee = h.speaker()
			}
			tasks, err := b.List(ctx, f)
			if err != nil {
				return err
			}
			pause, err := b.Paused(ctx)
			if err != nil {
				return err
			}
			v.none(len(tasks), "board %s: no cards", b.Slug())
			return v.emit(tasks, func(w io.Writer) {
				printPause(w, pause)
				for _, t := range tasks {
					printCard(w, t)
				}
			})
		})
	}})
	cmd.Flags().StringVar(&f.Assignee, "assignee", "", "only this lane's cards")
	cmd.Flags().BoolVar(&mine, "mine", false, "only your own cards")
	cmd.Flags().StringVar(&status, "status", "", "only cards in this status")
	cmd.Flags().StringVar(&f.Tenant, "tenant", "", "only this tenant's cards")
	cmd.Flags().StringVar(&f.Session, "session", "", "only cards of this chat session")
	cmd.Flags().StringVar(&f.WorkflowTemplateID, "workflow-template-id", "", "only cards of this template")
	cmd.Flags().StringVar(&f.CurrentStepKey, "step-key", "", "only cards at this step")
	cmd.Flags().BoolVar(&f.Archived, "archived", false, "archived cards too")
	cmd.Flags().StringVar(&f.Sort, "sort", "", "order: "+strings.Join(kanban.Sorts(), ", "))
	cmd.Flags().IntVar(&f.Limit, "limit", 0, "how many at most")
	return cmd
}

func join[T ~string](words []T) string {
	list := make([]string, len(words))
	for i, word := range words {
		list[i] = string(word)
	}
	return strings.Join(list, ", ")
}

// printCard is one line of a list, in the format that Hermes' users know.
func printCard(w io.Writer, t kanban.Task) {
	tenant := ""
	if t.Tenant != "" {
		tenant = " [" + line(t.Tenant) + "]"
	}
	fmt.Fprintf(w, "%s %s  %-8s  %-20s%s  %s\n", statusIcon(string(t.Status)), line(t.ID), t.Status, line(t.Assignee), tenant, short(t.Title))
}

func (v *boardVerbs) showVerb() *cobra.Command {
	var state kanban.RunState
	cmd := v.readVerb(&cobra.Command{Use: "show [CARD]", Short: "Print a card with its runs, comments and history", Args: between(0, 1), RunE: func(cmd *cobra.Command, args []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
			id, err := h.card(args)
			if err != nil {
				return err
			}
			d, err := b.Show(ctx, id)
			if err != nil {
				return err
			}
			if d.Runs, err = state.Of(d.Runs); err != nil {
				return err
			}
			return v.emit(d, func(w io.Writer) { printDetail(w, d) })
		})
	}})
	stateFlags(cmd, &state)
	return cmd
}

// stateFlags narrow the attempts that a verb shows.
func stateFlags(cmd *cobra.Command, state *kanban.RunState) {
	cmd.Flags().StringVar(&state.By, "state-type", "", "show only attempts by their status or their outcome")
	cmd.Flags().StringVar(&state.Name, "state-name", "", "the status or outcome that they must have")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if known := []string{"", "status", "outcome"}; !slices.Contains(known, state.By) || (state.By == "") != (state.Name == "") {
			return usagef("--state-type is status or outcome, and --state-name the word that it must be; give both or none")
		}
		return nil
	}
}

func printDetail(w io.Writer, d kanban.Detail) {
	printCard(w, d.Task)
	fmt.Fprintf(w, "  %s\n", strings.Join(circumstances(d.Task), " · "))
	for _, part := range []struct{ title, text string }{
		{"body", d.Task.Body}, {"result", d.Task.Result}, {"last failure", d.Task.LastFailureError},
	} {
		if part.text != "" {
			fmt.Fprintf(w, "\n%s\n%s\n", part.title, indented(part.text, "  "))
		}
	}
	section(w, "parents", d.Parents, func(id string) { fmt.Fprintln(w, " ", line(id)) })
	section(w, "children", d.Children, func(id string) { fmt.Fprintln(w, " ", line(id)) })
	section(w, "runs", d.Runs, func(r kanban.Run) { printRun(w, r) })
	section(w, "comments", d.Comments, func(c kanban.Comment) {
		fmt.Fprintf(w, "  %s  %s: %s\n", epoch(c.CreatedAt), line(c.Author), strings.TrimSpace(indented(c.Body, "    ")))
	})
	section(w, "events", d.Events, func(e kanban.Event) { printEvent(w, e, "") })
}

// circumstances are the small facts of a card that are worth a word when they are not the usual ones.
func circumstances(t kanban.Task) []string {
	facts := []string{"created " + epoch(t.CreatedAt)}
	if t.CreatedBy != "" {
		facts[0] += " by " + line(t.CreatedBy)
	}
	for _, f := range []struct {
		is   bool
		says string
	}{
		{t.StartedAt != 0, "first started " + epoch(t.StartedAt)},
		{t.CompletedAt != 0, "completed " + epoch(t.CompletedAt)},
		{t.Priority != 0, fmt.Sprintf("priority %d", t.Priority)},
		{t.WorkspacePath != "", t.WorkspaceKind + " " + line(t.WorkspacePath)},
		{t.ConsecutiveFailures != 0, fmt.Sprintf("failures in a row: %d", t.ConsecutiveFailures)},
	} {
		if f.is {
			facts = append(facts, f.says)
		}
	}
	return facts
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
	said := strings.TrimSpace(indented(r.Summary+r.Error, "      "))
	fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  #%d  %s  %-12s %s  %s", r.ID, epoch(r.StartedAt), outcome, line(r.Profile), said), " "))
}

// printEvent prints one event; card is shown where events of several cards stand together.
func printEvent(w io.Writer, e kanban.Event, card string) {
	if card != "" {
		card = line(card) + "  "
	}
	fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %-4d  %s  %s%-12s  %s", e.ID, epoch(e.CreatedAt), card, line(e.Kind), pairs(e.Payload)), " "))
}

// pairs writes a JSON object as key=value, without what is empty. --json has it all.
func pairs(object json.RawMessage) string {
	var fields map[string]any
	if json.Unmarshal(object, &fields) != nil {
		return line(string(object))
	}
	var said []string
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		value := fields[key]
		if value == nil || value == "" {
			continue
		}
		if list, ok := value.([]any); ok && len(list) == 0 {
			continue
		}
		word, ok := value.(string)
		if !ok {
			raw, _ := json.Marshal(value)
			word = string(raw)
		}
		said = append(said, line(key)+"="+line(strings.ReplaceAll(word, "\n", " ⏎ ")))
	}
	return strings.Join(said, "  ")
}

func epoch(seconds int64) string { return when(time.Unix(seconds, 0)) }

func (v *boardVerbs) runsVerb() *cobra.Command {
	var state kanban.RunState
	cmd := v.readVerb(&cobra.Command{Use: "runs [CARD]", Short: "Print a card's attempts", Args: between(0, 1), RunE: func(cmd *cobra.Command, args []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
			id, err := h.card(args)
			if err != nil {
				return err
			}
			runs, err := b.Runs(ctx, id)
			if err != nil {
				return err
			}
			tried := len(runs)
			if runs, err = state.Of(runs); err != nil {
				return err
			}
			v.none(tried, "card %s has not been tried yet", id)
			if tried > 0 {
				v.none(len(runs), "none of the %d attempts at card %s has %s %s", tried, id, state.By, state.Name)
			}
			return v.emit(append([]kanban.Run{}, runs...), func(w io.Writer) {
				for _, r := range runs {
					printRun(w, r)
				}
			})
		})
	}})
	stateFlags(cmd, &state)
	return cmd
}

func (v *boardVerbs) eventsVerb() *cobra.Command {
	var after int64
	var limit int
	cmd := v.readVerb(&cobra.Command{Use: "events", Short: "Print a board's history", Args: exactly(0), RunE: func(cmd *cobra.Command, _ []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, _ house, b *kanban.Board) error {
			if err := checkLimit(limit); err != nil {
				return err
			}
			events, err := b.Events(ctx, after, limit)
			if err != nil {
				return err
			}
			v.none(len(events), "board %s has no event after %d", b.Slug(), after)
			return v.emit(events, func(w io.Writer) {
				for _, e := range events {
					printEvent(w, e, e.TaskID)
				}
				if len(events) == limit {
					fmt.Fprintf(v.std.err, "there may be more: --after %d\n", events[limit-1].ID)
				}
			})
		})
	}})
	cmd.Flags().Int64Var(&after, "after", 0, "only events with a larger id")
	cmd.Flags().IntVar(&limit, "limit", 200, "how many at most")
	return cmd
}

func (v *boardVerbs) statsVerb() *cobra.Command {
	return v.readVerb(&cobra.Command{Use: "stats", Short: "Count a board's cards", Args: exactly(0), RunE: func(cmd *cobra.Command, _ []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, _ house, b *kanban.Board) error {
			stats, err := b.Stats(ctx)
			if err != nil {
				return err
			}
			return v.emit(stats, func(w io.Writer) {
				printPause(w, stats.Pause)
				for _, status := range kanban.Statuses() {
					fmt.Fprintf(w, "%s %-10s %d\n", statusIcon(string(status)), status, stats.ByStatus[string(status)])
				}
			})
		})
	}})
}

func (v *boardVerbs) contextVerb() *cobra.Command {
	return v.readVerb(&cobra.Command{Use: "context [CARD]", Short: "Print what a worker is told about a card", Args: between(0, 1), RunE: func(cmd *cobra.Command, args []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
			id, err := h.card(args)
			if err != nil {
				return err
			}
			told, err := b.Context(ctx, id)
			if err != nil {
				return err
			}
			return v.emit(map[string]string{"task": id, "text": told}, func(w io.Writer) { fmt.Fprintln(w, onTerminal(w, told)) })
		})
	}})
}
