package main

import (
	"context"

	"github.com/spf13/cobra"

	"gatewayd/kanban"
)

func (v *boardVerbs) requestReviewVerb() *cobra.Command {
	var run int64
	var review kanban.Review
	var metadata string
	cmd := v.deed("request-review [CARD]", "Hand a card to a reviewer", between(0, 1), func(ctx context.Context, o order, card string) (_ outcome, err error) {
		if review.Metadata, err = object("metadata", metadata); err != nil {
			return outcome{}, err
		}
		if review.Run, err = o.fence(card, run); err != nil {
			return outcome{}, err
		}
		return outcome{says: card + " waits for its review"}, o.RequestReview(ctx, card, review)
	})
	f := cmd.Flags()
	f.StringVar(&review.Summary, "summary", "", "what was done")
	f.StringVar(&review.Reviewer, "reviewer", "", "the lane that reviews it (default: whoever has the card)")
	f.StringVar(&metadata, "metadata", "", "JSON object to keep with the run")
	f.StringArrayVar(&review.Artifacts, "artifact", nil, "a file of the workspace that the reviewer needs (repeatable)")
	f.BoolVar(&review.Force, "force", false, "do it although its worker is alive")
	return fenced(cmd, &run)
}

func (v *boardVerbs) requestChangesVerb() *cobra.Command {
	var run int64
	cmd := v.deed("request-changes CARD REASON...", "End a review without approval: the card goes back to who worked on it", atLeast(2), func(ctx context.Context, o order, card string) (outcome, error) {
		fence, err := o.fence(card, run)
		if err != nil {
			return outcome{}, err
		}
		return outcome{says: card + " goes back to be changed"}, o.RequestChanges(ctx, card, fence, o.rest)
	})
	return fenced(cmd, &run)
}

func (v *boardVerbs) reopenReviewVerb() *cobra.Command {
	return v.change("reopen-review CARD [REASON...]", "Put a card that left review back into it", atLeast(1), func(ctx context.Context, _ house, b *kanban.Board, card, reason string) (string, error) {
		return card + " waits for its review again", b.ReopenReview(ctx, card, reason)
	})
}
