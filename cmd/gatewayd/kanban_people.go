package main

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gatewayd/kanban"
)

// peopleVerbs are those by which people steer a board: what a worker may not do, see kanban.Actor.
func (v *boardVerbs) peopleVerbs() []*cobra.Command {
	return []*cobra.Command{
		v.assignVerb(), v.reassignVerb(), v.reclaimVerb(), v.terminateVerb(), v.promoteVerb(), v.moveVerb(), v.archiveVerb(), v.deleteVerb(),
		v.purgeVerb(), v.editVerb(), v.setModelVerb(), v.specifyVerb(), v.decomposeVerb(),
	}
}

// assigned says who has a card now.
func (v *boardVerbs) assigned(h house, lane string) string {
	if lane == "" || lane == "-" || strings.EqualFold(lane, "none") {
		return "has no lane now"
	}
	v.noteLane(h, lane)
	return "is assigned to " + line(lane)
}

func (v *boardVerbs) assignVerb() *cobra.Command {
	return v.change("assign CARD LANE", "Give a card to a lane (none takes it away)", exactly(2), func(ctx context.Context, h house, b *kanban.Board, card, lane string) (string, error) {
		if err := b.Assign(ctx, card, lane); err != nil {
			return "", err
		}
		return card + " " + v.assigned(h, lane), nil
	})
}

func (v *boardVerbs) reassignVerb() *cobra.Command {
	var reason string
	var reclaim bool
	cmd := v.deed("reassign CARD LANE", "Give a card to another lane, with --reclaim also while it is worked on", exactly(2), func(ctx context.Context, o order, card string) (outcome, error) {
		r, err := o.Reassign(ctx, card, o.rest, reason, o.actor().Name, reclaim)
		if err != nil {
			return outcome{}, err
		}
		return released(card, v.assigned(o.house, o.rest), r), nil
	})
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	cmd.Flags().BoolVar(&reclaim, "reclaim", false, "take a running card from its worker first")
	return cmd
}

func (v *boardVerbs) reclaimVerb() *cobra.Command {
	var reason string
	cmd := v.deed("reclaim CARD", "Take a running card from its worker", exactly(1), func(ctx context.Context, o order, card string) (outcome, error) {
		r, err := o.Reclaim(ctx, card, reason, o.actor().Name)
		return released(card, "is "+string(r.Status)+" again", r), err
	})
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

func (v *boardVerbs) terminateVerb() *cobra.Command {
	var reason string
	cmd := v.readVerb(&cobra.Command{Use: "terminate RUN", Short: "End an attempt by its number, and release its card", Args: exactly(1)})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || id < 1 {
			return usagef("RUN must be the number of an attempt, not %q; see `gatewayd kanban runs CARD`", args[0])
		}
		return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
			if err := h.actor().May(cmd.Name(), ""); err != nil {
				return err
			}
			run, err := b.Run(ctx, kanban.RunID(id))
			if err != nil {
				return err
			}
			r, err := b.Terminate(ctx, run.ID, reason, h.actor().Name)
			if err != nil {
				return err
			}
			out := released(run.TaskID, "is "+string(r.Status)+" again", r)
			return v.emit(map[string]any{"ok": true, "run_id": id, "task_id": run.TaskID, "released": r}, func(w io.Writer) { v.say(w, out) })
		})
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

func (v *boardVerbs) promoteVerb() *cobra.Command {
	var force, dry bool
	cmd := v.reasoned("promote CARD [REASON...]", "Let a waiting or blocked card go on now", atLeast(1), func(ctx context.Context, o order, card string) (outcome, error) {
		if dry {
			would, err := o.WouldPromote(ctx, card, force)
			return wouldPromote(card, would), err
		}
		return outcome{says: card + " is promoted"}, o.PromoteByHand(ctx, card, o.rest, o.actor().Name, force)
	})
	cmd.Flags().BoolVar(&force, "force", false, "although parents are open: the links to them are taken away")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would happen, and change nothing")
	return cmd
}

func wouldPromote(card string, p kanban.Promotion) outcome {
	out := outcome{says: card + " would be " + string(p.To), beside: map[string]any{"dry_run": true, "promotion": p}}
	if len(p.Unlinked) > 0 {
		out.says += " and no longer wait for " + strings.Join(p.Unlinked, ", ")
	}
	return out
}

func (v *boardVerbs) moveVerb() *cobra.Command {
	var reason string
	cmd := v.deed("move CARD STATUS", "Put a card in another column of the board", exactly(2), func(ctx context.Context, o order, card string) (outcome, error) {
		r, err := o.Move(ctx, card, kanban.Status(o.rest), kanban.Movement{Reason: reason, Actor: o.actor().Name})
		return released(card, "is "+string(r.Status), r), err
	})
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

func (v *boardVerbs) archiveVerb() *cobra.Command {
	var purge bool
	cmd := v.each("archive CARD...", "Put cards away; with --rm remove archived ones for good", func(ctx context.Context, o order, card string) (outcome, error) {
		if purge {
			return removed(card, func() ([]string, error) { return o.Purge(ctx, card) })
		}
		return outcome{says: card + " is archived"}, o.Archive(ctx, card)
	})
	cmd.Args = atLeast(1)
	cmd.Flags().BoolVar(&purge, "rm", false, "remove archived cards for good")
	return cmd
}

func (v *boardVerbs) deleteVerb() *cobra.Command {
	cmd := v.each("delete CARD...", "Remove cards for good, in any status", func(ctx context.Context, o order, card string) (outcome, error) {
		return removed(card, func() ([]string, error) { return o.Delete(ctx, card) })
	})
	cmd.Args = atLeast(1)
	return cmd
}

func (v *boardVerbs) purgeVerb() *cobra.Command {
	cmd := v.each("purge CARD...", "Remove archived cards for good", func(ctx context.Context, o order, card string) (outcome, error) {
		return removed(card, func() ([]string, error) { return o.Purge(ctx, card) })
	})
	cmd.Args = atLeast(1)
	return cmd
}

// removed does away with a card.
func removed(card string, do func() ([]string, error)) (outcome, error) {
	_, err := do()
	return outcome{says: card + " is removed", beside: map[string]any{"deleted": card}, gone: true}, err
}
