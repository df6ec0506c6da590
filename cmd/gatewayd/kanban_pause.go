package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/kanban"
	"gatewayd/kanban/dispatch"
)

// pauseVerbs stop a board's starts and let them go on.
func (v *boardVerbs) pauseVerbs() []*cobra.Command {
	return []*cobra.Command{v.pauseVerb(), v.drainVerb(), v.resumeVerb(), v.authorizePRVerb()}
}

// onBoardAsPerson opens the board for what workers may not do.
func (v *boardVerbs) onBoardAsPerson(cmd *cobra.Command, do func(context.Context, house, *kanban.Board) error) error {
	return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
		if err := h.actor().May(cmd.Name(), ""); err != nil {
			return err
		}
		return do(ctx, h, b)
	})
}

func (v *boardVerbs) pauseVerb() *cobra.Command {
	return v.readVerb(&cobra.Command{
		Use: "pause [REASON...]", Short: "Start no card of the board until it is resumed; workers that run go on", Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.onBoardAsPerson(cmd, func(ctx context.Context, h house, b *kanban.Board) error {
				if err := b.Pause(ctx, kanban.Pause{Mode: kanban.PauseStarts, Reason: words(args, 0), By: h.speaker()}); err != nil {
					return err
				}
				return v.emitPause(ctx, b, 0, func(w io.Writer, _ int) {
					fmt.Fprintf(w, "board %s is paused: no card starts until `gatewayd kanban resume` (a Hermes dispatcher does not know of pauses)\n", b.Slug())
				})
			})
		},
	})
}

// emitPause says how the board stands now.
func (v *boardVerbs) emitPause(ctx context.Context, b *kanban.Board, asked int, text func(w io.Writer, running int)) error {
	running, err := b.Running(ctx)
	if err != nil {
		return err
	}
	pause, err := b.Paused(ctx)
	if err != nil {
		return err
	}
	body := map[string]any{"board": b.Slug(), "pause": pause, "running": len(running), "asked_to_end": asked}
	return v.emit(body, func(w io.Writer) { text(w, len(running)) })
}

func (v *boardVerbs) drainVerb() *cobra.Command {
	var kill, wait bool
	cmd := v.readVerb(&cobra.Command{
		Use: "drain [REASON...]", Short: "Start no card, and let the board become empty of workers", Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.onBoardAsPerson(cmd, func(ctx context.Context, h house, b *kanban.Board) error {
				reason := words(args, 0)
				if err := b.Pause(ctx, kanban.Pause{Mode: kanban.PauseDrain, Reason: reason, By: h.speaker()}); err != nil {
					return err
				}
				asked := 0
				if kill {
					var err error
					if asked, err = b.StopAll(ctx, reason, h.speaker()); err != nil {
						return err
					}
					if !v.json {
						fmt.Fprintf(v.std.out, "%s asked to end; cards go back to where they were claimed from\n", many(asked, "worker"))
					}
				}
				if wait {
					if err := v.waitEmpty(ctx, b); err != nil {
						return err
					}
				}
				return v.emitPause(ctx, b, asked, func(w io.Writer, running int) {
					if wait {
						fmt.Fprintf(w, "board %s is drained\n", b.Slug())
						return
					}
					fmt.Fprintf(w, "board %s is being drained: %s at work, no card starts until `gatewayd kanban resume`\n", b.Slug(), many(running, "worker"))
				})
			})
		},
	})
	cmd.Flags().BoolVar(&kill, "kill", false, "end the workers that run")
	cmd.Flags().BoolVar(&wait, "wait", false, "return when no worker runs any more")
	return cmd
}

// waitEmpty looks at the board a few times a second: its workers end in other processes.
func (v *boardVerbs) waitEmpty(ctx context.Context, b *kanban.Board) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	last := -1
	for {
		running, err := b.Running(ctx)
		switch {
		case err != nil:
			return err
		case len(running) == 0:
			return nil
		case len(running) != last:
			last = len(running)
			fmt.Fprintf(v.std.err, "waiting for %s\n", many(last, "worker"))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (v *boardVerbs) resumeVerb() *cobra.Command {
	return v.readVerb(&cobra.Command{
		Use: "resume", Short: "Let a paused or drained board start cards again", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return v.onBoardAsPerson(cmd, func(ctx context.Context, h house, b *kanban.Board) error {
				if err := b.Resume(ctx, h.speaker()); err != nil {
					return err
				}
				return v.emit(map[string]any{"board": b.Slug(), "pause": nil}, func(w io.Writer) {
					fmt.Fprintf(w, "board %s starts cards again\n", b.Slug())
				})
			})
		},
	})
}

func (v *boardVerbs) authorizePRVerb() *cobra.Command {
	return v.change("authorize-existing-pr CARD", "Let a card start once although a comment names a pull request", exactly(1),
		func(ctx context.Context, h house, b *kanban.Board, card, _ string) (string, error) {
			return card + " may start once more", b.AuthorizeExistingPR(ctx, card, h.speaker())
		})
}

// printPause says above a list why nothing of it starts.
func printPause(w io.Writer, p *kanban.Pause) {
	if hold := dispatch.PauseHold(p); hold != nil {
		fmt.Fprintln(w, firstHold([]dispatch.Hold{*hold}))
	}
}
