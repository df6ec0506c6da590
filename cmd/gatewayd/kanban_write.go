package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/internal/problem"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

// writeVerbs are the verbs by which people and workers say how the work on a card goes.
func (v *boardVerbs) writeVerbs() []*cobra.Command {
	return []*cobra.Command{
		v.createVerb(), v.linkVerb(), v.unlinkVerb(), v.commentVerb(), v.claimVerb(), v.heartbeatVerb(), v.completeVerb(), v.blockVerb(),
		v.unblockVerb(), v.scheduleVerb(), v.timersVerb(), v.requestReviewVerb(), v.requestChangesVerb(), v.reopenReviewVerb(),
	}
}

// noteLane says beside the answer when nobody here will take a card. It is no error: another gatewayd may.
func (v *boardVerbs) noteLane(h house, assignee string) {
	lanes, err := worker.NewLanes(h.Kanban, h.KeyVariables()...)
	if err != nil || assignee == "" {
		return
	}
	if _, known := lanes.Lookup(assignee); !known {
		fmt.Fprintf(v.std.err, "note: no lane is called %s, so no worker of this gatewayd will take the card; lanes: %s\n",
			line(assignee), strings.Join(lanes.Names(), ", "))
	}
}

func (v *boardVerbs) linkVerb() *cobra.Command {
	var run int64
	cmd := v.change("link PARENT CHILD", "Make a card wait for another", exactly(2), func(ctx context.Context, h house, b *kanban.Board, parent, child string) (string, error) {
		fence, err := h.fence(child, run)
		if err != nil {
			return "", err
		}
		if fence == nil {
			return child + " waits for " + parent, b.Link(ctx, parent, child)
		}
		return child + " waits for " + parent, b.LinkAs(ctx, parent, child, *fence)
	})
	return fenced(cmd, &run)
}

func (v *boardVerbs) unlinkVerb() *cobra.Command {
	return v.change("unlink PARENT CHILD", "Undo a link", exactly(2), func(ctx context.Context, _ house, b *kanban.Board, parent, child string) (string, error) {
		return child + " no longer waits for " + parent, b.Unlink(ctx, parent, child)
	})
}

func (v *boardVerbs) commentVerb() *cobra.Command {
	var author string
	var most int
	cmd := v.change("comment CARD TEXT...", "Add a remark (TEXT - reads stdin)", atLeast(2), func(ctx context.Context, h house, b *kanban.Board, card, said string) (_ string, err error) {
		if said == "-" {
			if said, err = readText(v.std.in, "the comment"); err != nil {
				return "", err
			}
		}
		if most < 0 {
			return "", usagef("--max-len must be 0 (no limit) or more, not %d", most)
		}
		if n := len([]rune(said)); most > 0 && n > most {
			return "", usagef("the comment has %d characters, more than --max-len %d; nothing was written", n, most)
		}
		me := h.actor()
		if me.Worker() && author != "" {
			return "", &problem.Error{
				Kind: problem.Denied, Thing: "--author " + author, What: "is for people", Fate: "nothing was written",
				Remedy: "leave it out: a worker's remarks are signed with its lane",
			}
		}
		if author == "" {
			author = me.Name
		}
		_, err = b.Comment(ctx, card, author, said)
		return "commented on " + card, err
	})
	cmd.Flags().StringVar(&author, "author", "", "who says it (default: you)")
	cmd.Flags().IntVar(&most, "max-len", 0, "refuse a remark with more characters")
	return cmd
}

func (v *boardVerbs) claimVerb() *cobra.Command {
	var ttl time.Duration
	var review bool
	cmd := v.deed("claim CARD", "Take a ready card by hand", exactly(1), func(ctx context.Context, o order, card string) (outcome, error) {
		if ttl < time.Second {
			return outcome{}, usagef("--ttl must be 1s or more, not %v", ttl)
		}
		claim, err := o.Claim(ctx, card, kanban.Claimer{Lock: kanban.ClaimLock(), TTL: ttl, Review: review})
		said := fmt.Sprintf("claimed %s as run %d until %s; complete or block it with --run %d", card, claim.Run.ID, epoch(claim.Run.ClaimExpires), claim.Run.ID)
		if err != nil {
			return outcome{}, err
		}
		at := worker.Place{Kind: claim.Task.WorkspaceKind, Path: claim.Task.WorkspacePath, Task: card, Root: o.root.WorkspacesDir(o.Slug())}.Dir()
		if at != "" {
			said += "\nworkspace: " + line(at)
		}
		return outcome{says: said, beside: map[string]any{"run": claim.Run, "workspace": at}}, nil
	})
	span(cmd.Flags(), &ttl, "ttl", kanban.DefaultClaimTTL, "how long the claim holds without a heartbeat")
	cmd.Flags().BoolVar(&review, "review", false, "take a card that waits for review")
	return cmd
}

func (v *boardVerbs) heartbeatVerb() *cobra.Command {
	var run int64
	var note string
	cmd := v.change("heartbeat [CARD]", "Say that the work goes on", between(0, 1), func(ctx context.Context, h house, b *kanban.Board, card, _ string) (string, error) {
		fence, err := h.fence(card, run)
		if err == nil && fence == nil {
			err = usagef("name the attempt with --run: only a worker has one of its own")
		}
		if err != nil {
			return "", err
		}
		return "noted", b.Heartbeat(ctx, card, *fence, note, h.Kanban.ClaimTTL)
	})
	cmd.Flags().StringVar(&note, "note", "", "what is going on")
	return fenced(cmd, &run)
}

// object reads a flag that is a JSON object.
func object(flag, value string) (fields map[string]any, err error) {
	if value == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(value), &fields); err != nil || fields == nil {
		return nil, usagef(`--%s must be a JSON object such as {"files": 3}, not %.80q`, flag, value)
	}
	return fields, nil
}

func (v *boardVerbs) completeVerb() *cobra.Command {
	var run int64
	var done kanban.Completion
	var metadata string
	cmd := v.each("complete [CARD]...", "Say that a card is done", func(ctx context.Context, o order, card string) (_ outcome, err error) {
		if done.Metadata, err = object("metadata", metadata); err != nil {
			return outcome{}, err
		}
		if done.Run, err = o.fence(card, run); err != nil {
			return outcome{}, err
		}
		return outcome{says: card + " is done"}, o.Complete(ctx, card, done)
	})
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if len(distinct(args)) < 2 {
			return nil
		}
		for _, name := range []string{"summary", "metadata", "created-card", "artifact", "run"} {
			if cmd.Flags().Changed(name) {
				return usagef("--%s says something of one card; complete each card by itself, or give --result for all", name)
			}
		}
		return nil
	}
	f := cmd.Flags()
	f.StringVar(&done.Summary, "summary", "", "one line for people")
	f.StringVar(&done.Result, "result", "", "the result itself")
	f.StringVar(&metadata, "metadata", "", "JSON object to keep with the run")
	f.StringArrayVar(&done.CreatedCards, "created-card", nil, "a card that this work created (repeatable)")
	f.StringArrayVar(&done.Artifacts, "artifact", nil, "a file of the workspace to keep with the card (repeatable)")
	f.BoolVar(&done.Force, "force", false, "complete it although its worker is alive")
	return fenced(cmd, &run)
}

func (v *boardVerbs) blockVerb() *cobra.Command {
	var run int64
	var block kanban.Block
	cmd := v.reasoned("block CARD REASON...", "Stop a card until a person unblocks it", atLeast(2), func(ctx context.Context, o order, card string) (_ outcome, err error) {
		if strings.TrimSpace(o.rest) == "" {
			return outcome{}, usagef("REASON is empty; say what the card waits for")
		}
		block.Reason, block.By = o.rest, o.actor().Name
		if block.Run, err = o.fence(card, run); err != nil {
			return outcome{}, err
		}
		return outcome{says: card + " is blocked"}, o.Block(ctx, card, block)
	})
	cmd.Flags().StringVar(&block.Kind, "kind", "", "needs_input, capability, transient or dependency")
	return fenced(cmd, &run)
}

func (v *boardVerbs) unblockVerb() *cobra.Command {
	var reason string
	cmd := v.each("unblock CARD...", "Let blocked or scheduled cards go on", func(ctx context.Context, o order, card string) (outcome, error) {
		return outcome{says: card + " is unblocked"}, o.Unblock(ctx, card, reason)
	})
	cmd.Args = atLeast(1)
	cmd.Flags().StringVar(&reason, "reason", "", "why it may go on")
	return cmd
}
