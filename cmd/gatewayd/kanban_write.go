package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

// change makes a verb that changes one card, named first or the worker's own, and says what it did.
func (v *boardVerbs) change(use, short string, args cobra.PositionalArgs, do func(ctx context.Context, h house, b *kanban.Board, card, rest string) (string, error)) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
			card, err := h.card(args)
			if err != nil {
				return err
			}
			said, err := do(ctx, h, b, card, words(args, 1))
			if err == nil {
				fmt.Fprintln(v.std.out, said)
			}
			return err
		})
	}}
}

func (v *boardVerbs) createVerb() *cobra.Command {
	var n kanban.NewTask
	var blocked bool
	var maxRuntime time.Duration
	var maxRetries int64
	cmd := v.readVerb(&cobra.Command{Use: "create TITLE", Short: "Create a card", Args: atLeast(1)})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if n.Triage && blocked {
			return usagef("--triage and --blocked do not go together; give one of the two")
		}
		if n.WorkspacePath != "" && n.WorkspaceKind == "" {
			return usagef("--workspace-path needs --workspace dir or --workspace worktree")
		}
		return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
			n.Title, n.CreatedBy, n.MaxRuntimeSeconds = words(args, 0), h.speaker(), int64(maxRuntime/time.Second)
			if cmd.Flags().Changed("max-retries") {
				n.MaxRetries = &maxRetries
			}
			if blocked {
				n.InitialStatus = kanban.StatusBlocked
			}
			task, err := b.Create(ctx, n)
			if err != nil {
				return err
			}
			return v.emit(task, func(w io.Writer) {
				printCard(w, task)
				v.noteLane(h, task.Assignee)
			})
		})
	}
	f := cmd.Flags()
	f.StringVar(&n.Body, "body", "", "what is to be done")
	f.StringVar(&n.Assignee, "assignee", "", "the lane that does it")
	f.StringArrayVar(&n.Parents, "parent", nil, "a card that must be done first (repeatable)")
	f.Int64Var(&n.Priority, "priority", 0, "higher goes first")
	f.StringVar(&n.Tenant, "tenant", "", "namespace")
	f.StringVar(&n.IdempotencyKey, "idempotency-key", "", "creating twice with one key makes one card")
	f.StringVar(&n.WorkspaceKind, "workspace", "", "scratch (default), dir or worktree")
	f.StringVar(&n.WorkspacePath, "workspace-path", "", "absolute directory for dir and worktree")
	f.BoolVar(&n.Triage, "triage", false, "park it as a rough idea")
	f.BoolVar(&blocked, "blocked", false, "create it blocked; unblock starts it")
	f.DurationVar(&maxRuntime, "max-runtime", 0, "end an attempt after this long")
	f.Int64Var(&maxRetries, "max-retries", 0, "failures in a row that block the card")
	return cmd
}

// noteLane says beside the answer when nobody here will take a card. It is no error: another gatewayd may.
func (v *boardVerbs) noteLane(h house, assignee string) {
	lanes, err := worker.NewLanes(h.Kanban, h.Model.APIKeyEnv)
	if err != nil || assignee == "" {
		return
	}
	if _, known := lanes.Lookup(assignee); !known {
		fmt.Fprintf(v.std.err, "note: no lane is called %s, so no worker of this gatewayd will take the card; lanes: %s\n",
			line(assignee), strings.Join(lanes.Names(), ", "))
	}
}

func (v *boardVerbs) linkVerb() *cobra.Command {
	return v.change("link PARENT CHILD", "Make a card wait for another", exactly(2), func(ctx context.Context, _ house, b *kanban.Board, parent, child string) (string, error) {
		return child + " waits for " + parent, b.Link(ctx, parent, child)
	})
}

func (v *boardVerbs) unlinkVerb() *cobra.Command {
	return v.change("unlink PARENT CHILD", "Undo a link", exactly(2), func(ctx context.Context, _ house, b *kanban.Board, parent, child string) (string, error) {
		return child + " no longer waits for " + parent, b.Unlink(ctx, parent, child)
	})
}

func (v *boardVerbs) assignVerb() *cobra.Command {
	return v.change("assign CARD LANE", "Give a card to a lane (none takes it away)", exactly(2), func(ctx context.Context, h house, b *kanban.Board, card, lane string) (string, error) {
		if err := b.Assign(ctx, card, lane); err != nil {
			return "", err
		}
		if lane == "" || lane == "none" {
			return card + " has no lane now", nil
		}
		v.noteLane(h, lane)
		return card + " is assigned to " + line(lane), nil
	})
}

func (v *boardVerbs) commentVerb() *cobra.Command {
	return v.change("comment CARD TEXT...", "Add a remark", atLeast(2), func(ctx context.Context, h house, b *kanban.Board, card, text string) (string, error) {
		_, err := b.Comment(ctx, card, h.speaker(), text)
		return "commented on " + card, err
	})
}

func (v *boardVerbs) claimVerb() *cobra.Command {
	var ttl time.Duration
	cmd := v.change("claim CARD", "Take a ready card by hand", exactly(1), func(ctx context.Context, _ house, b *kanban.Board, card, _ string) (string, error) {
		if ttl < time.Second {
			return "", usagef("--ttl must be 1s or more, not %v", ttl)
		}
		claim, err := b.Claim(ctx, card, kanban.Claimer{Lock: kanban.ClaimLock(), TTL: ttl})
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("claimed %s as run %d until %s; complete or block it with --run %d", card, claim.Run.ID, epoch(claim.Run.ClaimExpires), claim.Run.ID), nil
	})
	cmd.Flags().DurationVar(&ttl, "ttl", 15*time.Minute, "how long the claim holds without a heartbeat")
	return cmd
}

// fenced adds --run to a verb: the attempt that the caller acts for. Inside a worker it is the worker's own.
func fenced(cmd *cobra.Command, run *int64) *cobra.Command {
	cmd.Flags().Int64Var(run, "run", 0, "the attempt that this is said for (a worker's own by default)")
	return cmd
}

func runOr(h house, card string, given int64) *kanban.RunID {
	if given != 0 {
		run := kanban.RunID(given)
		return &run
	}
	return h.fence(card)
}

func (v *boardVerbs) heartbeatVerb() *cobra.Command {
	var run int64
	var note string
	cmd := v.change("heartbeat [CARD]", "Say that the work goes on", between(0, 1), func(ctx context.Context, h house, b *kanban.Board, card, _ string) (string, error) {
		fence := runOr(h, card, run)
		if fence == nil {
			return "", usagef("name the attempt with --run: only a worker has one of its own")
		}
		return "noted", b.Heartbeat(ctx, card, *fence, note, h.Kanban.ClaimTTL)
	})
	cmd.Flags().StringVar(&note, "note", "", "what is going on")
	return fenced(cmd, &run)
}

func (v *boardVerbs) completeVerb() *cobra.Command {
	var run int64
	var done kanban.Completion
	var metadata string
	cmd := v.change("complete [CARD]", "Say that a card is done", between(0, 1), func(ctx context.Context, h house, b *kanban.Board, card, _ string) (string, error) {
		done.Run = runOr(h, card, run)
		if metadata != "" {
			if err := json.Unmarshal([]byte(metadata), &done.Metadata); err != nil || done.Metadata == nil {
				return "", usagef(`--metadata must be a JSON object such as {"files": 3}, not %.80q`, metadata)
			}
		}
		return card + " is done", b.Complete(ctx, card, done)
	})
	f := cmd.Flags()
	f.StringVar(&done.Summary, "summary", "", "one line for people")
	f.StringVar(&done.Result, "result", "", "the result itself")
	f.StringVar(&metadata, "metadata", "", "JSON object to keep with the run")
	f.StringArrayVar(&done.CreatedCards, "created-card", nil, "a card that this work created (repeatable)")
	f.BoolVar(&done.Force, "force", false, "complete it although its worker is alive")
	return fenced(cmd, &run)
}

func (v *boardVerbs) blockVerb() *cobra.Command {
	var run int64
	var block kanban.Block
	cmd := v.change("block CARD REASON...", "Stop a card until a person unblocks it", atLeast(2), func(ctx context.Context, h house, b *kanban.Board, card, reason string) (string, error) {
		if strings.TrimSpace(reason) == "" {
			return "", usagef("REASON is empty; say what the card waits for")
		}
		block.Run, block.Reason = runOr(h, card, run), reason
		return card + " is blocked", b.Block(ctx, card, block)
	})
	cmd.Flags().StringVar(&block.Kind, "kind", "", "needs_input, capability, transient or dependency")
	return fenced(cmd, &run)
}

func (v *boardVerbs) unblockVerb() *cobra.Command {
	return v.change("unblock CARD [REASON...]", "Let a blocked card go on", atLeast(1), func(ctx context.Context, _ house, b *kanban.Board, card, reason string) (string, error) {
		return card + " is unblocked", b.Unblock(ctx, card, reason)
	})
}

func (v *boardVerbs) archiveVerb() *cobra.Command {
	return v.change("archive CARD", "Put a card away", exactly(1), func(ctx context.Context, _ house, b *kanban.Board, card, _ string) (string, error) {
		return card + " is archived", b.Archive(ctx, card)
	})
}
