package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"gatewayd/config"
	"gatewayd/kanban"
	"gatewayd/kanban/mcp"
	"gatewayd/kanban/worker"
	"gatewayd/kanban/worker/tools"
)

// mcpVerb serves the boards over standard input and output, beside a daemon or without one. A process that a dispatcher's
// worker started speaks for that worker's run, if it still is the current one.
func (c *cli) mcpVerb() *cobra.Command {
	v := &boardVerbs{cli: c}
	cmd := &cobra.Command{
		Use: "mcp", Short: "Serve the boards as MCP tools on standard input and output", Args: exactly(0),
		Long: "Speaks the Model Context Protocol on standard input and output until the input ends; logs go to standard error.\n" +
			"Inside a worker it speaks for that worker's run, elsewhere for the person who started it.",
		RunE: func(cmd *cobra.Command, _ []string) error { return v.serveMCP(cmd.Context()) },
	}
	cmd.Flags().StringVar(&v.slug, "board", "", "board that is meant where a call names none (default: the worker's own, else the current one)")
	return cmd
}

func (v *boardVerbs) serveMCP(ctx context.Context) (err error) {
	h, err := v.openRoot()
	if err != nil {
		return err
	}
	slug, err := v.board(h)
	if err != nil {
		return err
	}
	log, relay := relayed(h.Log, levelOf(h.Log), v.std.err, false)
	defer relay.Flush(flushMost)
	boards := &shelf{Root: h.root, config: h.Config, log: log, current: slug}
	defer func() { err = errors.Join(err, boards.close()) }()
	if _, _, err := boards.Acquire(ctx, slug); err != nil {
		return err
	}
	if err := h.prove(ctx, boards.held[slug]); err != nil {
		return err
	}
	return mcp.Serve(ctx, mcp.Options{Desk: deskOf(h.Loaded, boards, h.workerFence(slug), h.speaker()), Version: version}, v.std.in, v.std.out)
}

// deskOf is where a speaker's calls are answered, in the daemon and in a process of its own.
func deskOf(loaded config.Loaded, boards tools.Boards, run *kanban.Fence, name string) tools.Desk {
	desk := tools.Desk{Boards: boards, Worker: run, Name: name, ClaimTTL: loaded.Kanban.ClaimTTL, Secrets: (&secretBook{values: secretsOf(loaded)}).all}
	if lanes, err := worker.NewLanes(loaded.Kanban, loaded.KeyVariables()...); err == nil {
		desk.Lane = func(assignee string) string { return unknownLane(lanes, assignee) }
	}
	return desk
}

func unknownLane(lanes *worker.Lanes, assignee string) string {
	if _, known := lanes.Lookup(assignee); known || assignee == "" {
		return ""
	}
	note := fmt.Sprintf("no lane is called %s, so no worker of this gatewayd will take the card; lanes: %s", line(assignee), strings.Join(lanes.Names(), ", "))
	if near := lanes.Nearest(assignee); near != "" {
		note += "; did you mean " + near + "?"
	}
	return note
}

// shelf keeps each board that was asked for open until the process ends: opening and closing again and again is what
// breaks a file that older programs share.
type shelf struct {
	*kanban.Root
	config  config.Config
	log     *slog.Logger
	current kanban.Slug

	mu   sync.Mutex
	held map[kanban.Slug]*kanban.Board
}

// Current is the board that this process was started for.
func (s *shelf) Current() kanban.Slug { return s.current }

func (s *shelf) Acquire(ctx context.Context, slug kanban.Slug) (*kanban.Board, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if board := s.held[slug]; board != nil {
		return board, func() {}, nil
	}
	board, err := kanban.Open(ctx, boardOptions(s.config, s.Root, slug, s.log))
	if err != nil {
		return nil, nil, err
	}
	if s.held == nil {
		s.held = map[kanban.Slug]*kanban.Board{}
	}
	s.held[slug] = board
	return board, func() {}, nil
}

func (s *shelf) close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, board := range s.held {
		err = errors.Join(err, board.Close())
	}
	return err
}
