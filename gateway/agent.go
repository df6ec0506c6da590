package gateway

import (
	"context"
	"io"
)

// Card is the work a worker process was given: one card of a board, one run.
type Card struct {
	Board, Task string
	Run         int64
	Text        string      // the task's text, as the dispatcher wrote it to the worker's file
	Dir         string      // the workspace
	Ended       func() bool // whether the board's tools have completed or blocked the card (tool.BoardTools gives it)
}

// Exit codes of a worker process (spec of the worker protocol).
const (
	ExitDone        = 0  // the turn ended; the board says whether the card was completed
	ExitFailed      = 1  // the turn failed; the dispatcher counts a crash
	ExitRateLimited = 75 // the provider asked to wait; the card is not blamed
	ExitUnusable    = 78 // no model, or the provider will refuse again; the card is blocked at once
)

// Work runs the turn of a card, writes what a person should find in the worker's log to out, and gives the process's exit code.
func (g *Gateway) Work(ctx context.Context, card Card, out io.Writer) int { return ExitFailed }
