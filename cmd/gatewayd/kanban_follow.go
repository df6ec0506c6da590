package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/internal/problem"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

// seeVerbs are those that show what goes on on a board.
func (v *boardVerbs) seeVerbs() []*cobra.Command {
	return []*cobra.Command{v.diagnosticsVerb(), v.logVerb(), v.tailVerb(), v.watchVerb(), v.assigneesVerb()}
}

// untilStopped ends with Ctrl-C or SIGTERM, so that what follows something ends in order.
func untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

func (v *boardVerbs) logVerb() *cobra.Command {
	var tail int64
	var follow bool
	cmd := v.readVerb(&cobra.Command{Use: "log [CARD]", Short: "Print a card's worker log; raw into a pipe, made safe on a terminal", Args: between(0, 1), RunE: func(cmd *cobra.Command, args []string) error {
		switch {
		case tail < 0:
			return usagef("--tail must be a number of bytes, not %d", tail)
		case follow && v.json:
			return usagef("--follow and --json do not go together; give one of the two")
		}
		return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
			card, err := h.card(args)
			if err != nil {
				return err
			}
			task, err := b.Task(ctx, card)
			if err != nil {
				return err
			}
			if follow {
				return v.followLog(ctx, h, b, card, tail)
			}
			log, err := h.root.ReadLog(b.Slug(), card, tail)
			if err != nil {
				return err
			}
			if !log.Exists {
				return noLog(task)
			}
			return v.emit(log, func(w io.Writer) { fmt.Fprint(w, onTerminal(w, log.Content)) })
		})
	}})
	cmd.Flags().Int64Var(&tail, "tail", 0, "only the last BYTES")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the card's run ends")
	return cmd
}

func noLog(t kanban.Task) error {
	remedy := "no worker has run for it on this machine yet; see `gatewayd why " + t.ID + "`"
	if t.Status == kanban.StatusRunning {
		remedy = "its worker has said nothing yet; `gatewayd kanban log -f " + t.ID + "` waits for it"
	}
	return &problem.Error{Kind: problem.NotFound, Thing: "card " + t.ID, What: "has no log", Remedy: remedy}
}

func (v *boardVerbs) followLog(ctx context.Context, h house, b *kanban.Board, card string, tail int64) error {
	ctx, stop := untilStopped(ctx)
	defer stop()
	err := h.root.FollowLog(ctx, b.Slug(), card, safeOnTerminal(v.std.out), kanban.Follow{
		Tail: tail,
		Ended: func(ctx context.Context) (bool, error) {
			t, err := b.Task(ctx, card)
			return t.Status != kanban.StatusRunning, err
		},
		Lost: func() {
			fmt.Fprintln(v.std.err, "gatewayd: the log grew faster than it was read; a part is left out here")
		},
	})
	if ctx.Err() != nil {
		return nil // the reader has seen enough
	}
	return err
}

// printEvents follows what happens on a board until the reader has seen enough, or over says so.
func (v *boardVerbs) printEvents(ctx context.Context, b *kanban.Board, f kanban.EventFilter, every time.Duration, over func(context.Context) (bool, error)) error {
	ctx, stop := untilStopped(ctx)
	defer stop()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		ended, err := over(ctx) // before reading: what came with the end is still shown
		var events []kanban.Event
		if err == nil {
			events, f.After, err = b.EventsOf(ctx, f)
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for _, e := range events {
			if err := v.printOne(e, f.Task == ""); err != nil {
				return err
			}
		}
		if len(events) == 0 && ended {
			return nil
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// printOne is one line: of JSON, so that a program can read it while more comes.
func (v *boardVerbs) printOne(e kanban.Event, withCard bool) error {
	if v.json {
		return jsonLine(v.std.out, e)
	}
	card := ""
	if withCard {
		card = e.TaskID
	}
	printEvent(v.std.out, e, card)
	return nil
}

func (v *boardVerbs) tailVerb() *cobra.Command {
	every := time.Second
	cmd := v.readVerb(&cobra.Command{Use: "tail [CARD]", Short: "Follow a card's history until it is done or archived", Args: between(0, 1), RunE: func(cmd *cobra.Command, args []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
			card, err := h.card(args)
			if err != nil {
				return err
			}
			return v.printEvents(ctx, b, kanban.EventFilter{Task: card}, every, func(ctx context.Context) (bool, error) {
				t, err := b.Task(ctx, card)
				return t.Status == kanban.StatusDone || t.Status == kanban.StatusArchived, err
			})
		})
	}})
	cmd.Flags().Var((*pace)(&every), "interval", "how often to look")
	return cmd
}

func (v *boardVerbs) watchVerb() *cobra.Command {
	every := 500 * time.Millisecond
	var f kanban.EventFilter
	cmd := v.readVerb(&cobra.Command{Use: "watch", Short: "Follow what happens on a board from now on", Args: exactly(0), RunE: func(cmd *cobra.Command, _ []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, _ house, b *kanban.Board) (err error) {
			if !cmd.Flags().Changed("after") {
				if f.After, err = b.LatestEvent(ctx); err != nil {
					return err
				}
			}
			return v.printEvents(ctx, b, f, every, func(context.Context) (bool, error) { return false, nil })
		})
	}})
	flags := cmd.Flags()
	flags.StringVar(&f.Assignee, "assignee", "", "only events of this lane's cards")
	flags.StringVar(&f.Tenant, "tenant", "", "only events of this tenant's cards")
	flags.StringSliceVar(&f.Kinds, "kinds", nil, "only these kinds of events, with commas between")
	flags.Int64Var(&f.After, "after", 0, "begin behind this event (default: now)")
	flags.Var((*pace)(&every), "interval", "how often to look")
	return cmd
}

func (v *boardVerbs) assigneesVerb() *cobra.Command {
	return v.readVerb(&cobra.Command{Use: "assignees", Short: "List who has cards, and the lanes", Args: exactly(0), RunE: func(cmd *cobra.Command, _ []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
			stats, err := b.Stats(ctx)
			if err != nil {
				return err
			}
			lanes, err := worker.NewLanes(h.Kanban, h.KeyVariables()...)
			if err != nil {
				return err
			}
			list := stats.Assignees(lanes.Names())
			return v.emit(list, func(w io.Writer) {
				table(w, func(row func(...any)) {
					for _, a := range list {
						row(a.Name, lane(a.OnDisk), countWords(a.Counts))
					}
				})
			})
		})
	}})
}

func lane(is bool) string {
	if is {
		return "lane"
	}
	return "no lane"
}

// countWords are counts by status, in the order of the board.
func countWords(counts map[string]int) string {
	said := ""
	add := func(status string) {
		if n := counts[status]; n > 0 {
			said += fmt.Sprintf("%d %s  ", n, status)
		}
	}
	for _, status := range kanban.Statuses() {
		add(string(status))
	}
	for status := range counts {
		if !slices.Contains(kanban.Statuses(), kanban.Status(status)) {
			add(status)
		}
	}
	return said
}
