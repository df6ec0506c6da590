package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
	"gatewayd/reaper"
	"gatewayd/sessiondb"
)

// workerVerb is what a lane with the preset `agent` starts: our own agent at one card until it is completed or blocked, in a process
// of its own.
func (c *cli) workerVerb() *cobra.Command {
	v := &boardVerbs{cli: c}
	return &cobra.Command{
		Use: "worker", Short: "Work on one card with gatewayd's own agent (a dispatcher starts it)", Args: exactly(0),
		Long: "Work on one card with gatewayd's own agent until it is completed or blocked.\n\nThe dispatcher starts it for lanes of the preset `agent` and names the card in the environment. " +
			"Exit codes: 0 the turn ended, and the board says how; 1 it failed; 75 the provider asked to wait; 78 no model, or one that will refuse again; " +
			"124 the steps of the turn were used up (agent.max_iterations).",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
				if h.Worker == nil {
					return usagef("worker is started by a dispatcher, which names the card")
				}
				if err := register(ctx, h, b); err != nil {
					return err
				}
				code, why, err := work(ctx, c, h, b)
				if err != nil {
					why = textOf(err)
				}
				if why != "" {
					fmt.Fprint(c.std.out, worker.LastWord(why))
				}
				if err == nil && code != gateway.ExitDone {
					err = codeError(code)
				}
				return err
			})
		},
	}
}

// register says which process works on the card, before anything is paid for. One whose run is over stops here.
func register(ctx context.Context, h house, b *kanban.Board) error {
	pid := os.Getpid()
	err := b.Register(ctx, h.Worker.Task, kanban.RunID(h.Worker.Run), pid, procfs.Fingerprint(pid))
	if kanban.Committed(err) {
		return nil
	}
	return err
}

// work runs the card's turn against this home's model and store, beside the daemon.
func work(ctx context.Context, c *cli, h house, b *kanban.Board) (code int, why string, err error) {
	log, relay := relayed(h.Log, levelOf(h.Log), c.std.err, false)
	defer relay.Flush(flushMost)
	answers, how := chosen(ctx, h.Loaded, provider.JoinGates(h.Home, log), log)
	if answers.model.Describe().Offline {
		return gateway.ExitUnusable, "no model: " + how, nil
	}
	store, err := sessiondb.Open(ctx, storeOptions(h.Config, log))
	if err != nil {
		return 0, "", err
	}
	defer store.Close()
	starter, err := reaper.New(reaper.Options{Dir: filepath.Join(h.Home, "keepers"), Log: log, Spares: -1})
	if err != nil {
		return 0, "", err
	}
	options, err := gatewayOptions(h.Loaded, starter, store)
	if err != nil {
		return 0, "", err
	}
	text, err := taskText(ctx, h, b)
	if err != nil {
		return 0, "", err
	}
	desk := deskOf(h.Loaded, &shelf{Root: h.root, config: h.Config, log: log, current: b.Slug(), held: map[kanban.Slug]*kanban.Board{b.Slug(): b}}, h.workerFence(b.Slug()), h.speaker())
	verbs, ended := tool.BoardTools(&desk)
	options = options.With(answers.tune(tuningOf(h.Loaded)))
	options.Log, options.Tools = log, options.Tools.With(verbs...)
	defer withServers(ctx, &options, h.Loaded, starter, log)()
	card := gateway.Card{Board: string(b.Slug()), Task: h.Worker.Task, Run: h.Worker.Run, Text: text, Dir: h.Worker.Workspace, Ended: ended, Active: keepsClaim(ctx, h, b)}
	code, why = gateway.New(options).Work(ctx, card, c.std.out)
	return code, why, nil
}

// taskText is the text that the dispatcher wrote for this run, or what the board says now.
func taskText(ctx context.Context, h house, b *kanban.Board) (string, error) {
	if path := h.Environ.Get("GATEWAYD_TASK_FILE"); path != "" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return "", &problem.Error{Kind: problem.Unavailable, Thing: "task file " + path, What: "cannot be read", Err: err}
		}
		return string(raw), nil
	}
	return b.Context(ctx, h.Worker.Task)
}

// keepsClaim extends the worker's claim as it calls tools, those of the board and all others. One whose run is over learns it from the
// next thing it writes.
func keepsClaim(ctx context.Context, h house, b *kanban.Board) func() {
	return func() {
		if run, err := b.CurrentRun(ctx, *h.workerFence(b.Slug())); err == nil {
			_ = b.Active(ctx, run, h.Kanban.ClaimTTL)
		}
	}
}
