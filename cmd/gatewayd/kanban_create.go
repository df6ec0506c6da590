package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/internal/problem"
	"gatewayd/kanban"
)

// newCard is the command line of create.
type newCard struct {
	kanban.NewTask
	workspace, initial, createdBy string
	blocked                       bool
	maxRuntime                    time.Duration
	maxRetries                    int64
}

func (v *boardVerbs) createVerb() *cobra.Command {
	var n newCard
	cmd := v.readVerb(&cobra.Command{Use: "create TITLE", Short: "Create a card", Args: atLeast(1)})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n.Title = words(args, 0)
		if cmd.Flags().Changed("max-retries") {
			n.MaxRetries = &n.maxRetries
		}
		if err := n.read(v.std.in); err != nil {
			return err
		}
		return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
			return v.create(ctx, h, b, n)
		})
	}
	n.flags(cmd)
	return cmd
}

func (v *boardVerbs) create(ctx context.Context, h house, b *kanban.Board, n newCard) error {
	if err := n.signed(h); err != nil {
		return err
	}
	info, err := h.root.Lookup(b.Slug())
	if err != nil {
		return err
	}
	n.DefaultWorkdir = info.DefaultWorkdir
	task, err := b.Create(ctx, n.NewTask)
	if err != nil {
		return err
	}
	return v.emit(task, func(w io.Writer) {
		printCard(w, task)
		v.noteLane(h, task.Assignee)
	})
}

// signed says who makes the card, and in which conversation. A worker signs with its lane, and its card stands beside it.
func (n *newCard) signed(h house) error {
	me := h.actor()
	if me.Worker() && n.createdBy != "" {
		return &problem.Error{
			Kind: problem.Denied, Thing: "--created-by " + n.createdBy, What: "is for people", Fate: "no card was made",
			Remedy: "leave it out: what a worker makes is signed with its lane",
		}
	}
	n.CreatedBy, n.CreatorTask = me.Name, me.Task
	if n.createdBy != "" {
		n.CreatedBy = n.createdBy
	}
	if n.SessionID == "" {
		n.SessionID = h.Session
	}
	return nil
}

// read settles the flags that say one thing in two ways, and takes the body from stdin where it is "-".
func (n *newCard) read(stdin io.Reader) (err error) {
	if n.Body == "-" {
		if n.Body, err = readText(stdin, "the body"); err != nil {
			return err
		}
	}
	if kind, path, found := strings.Cut(n.workspace, ":"); found {
		if n.WorkspacePath != "" {
			return usagef("--workspace %s and --workspace-path both name a directory; give one of the two", n.workspace)
		}
		n.WorkspaceKind, n.WorkspacePath = kind, path
	} else {
		n.WorkspaceKind = kind
	}
	n.InitialStatus, n.MaxRuntimeSeconds = kanban.Status(n.initial), int64(n.maxRuntime/time.Second)
	if n.blocked {
		n.InitialStatus = kanban.StatusBlocked
	}
	switch {
	case n.blocked && n.initial != "" && n.initial != string(kanban.StatusBlocked):
		return usagef("--blocked and --initial-status %s do not go together; give one of the two", n.initial)
	case n.Triage && n.InitialStatus == kanban.StatusBlocked:
		return usagef("--triage and --blocked do not go together; give one of the two")
	case n.WorkspacePath != "" && n.WorkspaceKind == "":
		return usagef("--workspace-path needs --workspace dir or --workspace worktree")
	}
	return nil
}

func (n *newCard) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&n.Body, "body", "", "what is to be done; - reads it from stdin")
	f.StringVar(&n.Assignee, "assignee", "", "the lane that does it")
	f.StringArrayVar(&n.Parents, "parent", nil, "a card that must be done first (repeatable)")
	f.Int64Var(&n.Priority, "priority", 0, "higher goes first")
	f.StringVar(&n.Tenant, "tenant", "", "namespace (default: the first parent's)")
	f.StringVar(&n.IdempotencyKey, "idempotency-key", "", "creating twice with one key makes one card")
	f.StringVar(&n.workspace, "workspace", "", "scratch (default), dir:PATH, worktree or worktree:PATH")
	f.StringVar(&n.WorkspacePath, "workspace-path", "", "absolute directory for dir and worktree")
	f.StringVar(&n.BranchName, "branch", "", "branch of a worktree")
	f.StringVar(&n.ProjectID, "project", "", "project that it belongs to")
	f.BoolVar(&n.Triage, "triage", false, "park it as a rough idea")
	f.StringVar(&n.initial, "initial-status", "", "running (the usual rule) or blocked")
	f.BoolVar(&n.blocked, "blocked", false, "create it blocked; unblock starts it")
	span(f, &n.maxRuntime, "max-runtime", 0, "end an attempt after this long")
	f.Int64Var(&n.maxRetries, "max-retries", 0, "failures in a row that block the card")
	f.StringArrayVar(&n.Skills, "skill", nil, "a skill that the worker needs (repeatable)")
	f.StringVar(&n.ModelOverride, "model", "", "model of its workers")
	f.StringVar(&n.ProviderOverride, "provider", "", "provider of that model")
	f.StringVar(&n.ReasoningEffort, "reasoning", "", "how hard the model thinks: minimal, low, medium, high and more")
	f.BoolVar(&n.GoalMode, "goal", false, "the worker goes on until the goal is met")
	f.Int64Var(&n.GoalMaxTurns, "goal-max-turns", 0, "turns that it may take for that")
	f.StringVar(&n.CompletionContract, "completion-contract", "", "local-only, a repository (OWNER/NAME) or a pull request's URL that must be published")
	f.StringVar(&n.SessionID, "session", "", "chat session that it belongs to (default: the one whose terminal this is)")
	f.StringVar(&n.createdBy, "created-by", "", "who creates it (default: you)")
}

// maxStdin is the most that a card takes from stdin, as over HTTP.
const maxStdin = 10 << 20

func readText(from io.Reader, what string) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(from, maxStdin+1))
	if err == nil && len(raw) > maxStdin {
		err = &problem.Error{Kind: problem.Invalid, Thing: what, What: "is larger than 10 MiB", Fate: "nothing was changed", Remedy: "attach it as a file"}
	}
	return string(raw), err
}
