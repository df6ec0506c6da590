package gateway

import (
	"context"
	"log/slog"
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
)

// Options configure a Gateway. Store and Model are needed; every other zero value works.
type Options struct {
	Store any
	Model provider.Model
	Tools *tool.Set    // nil: no tools
	Log   *slog.Logger // nil: slog.Default

	SystemPrompt  string        // for sessions that bring none; empty means DefaultSystemPrompt
	MaxIterations int           // calls of the model in one turn; 0 means 90
	StallTimeout  time.Duration // without any sign of life the turn is ended; 0 means 600 s, negative never
	Grace         time.Duration // what running turns get when Run's context ends; 0 means 20 s, negative none
	LeaseTTL      time.Duration // 0 means 300 s; renewed at a third of it
	Mailbox       int           // messages that may wait in one conversation; 0 means 32
}

// Gateway holds the conversations. It is safe for concurrent use.
type Gateway struct{ opts Options }

// New makes a Gateway. It serves from now on, until Run's context ends.
func New(opts Options) *Gateway { return &Gateway{opts: opts} }

// Run serves until ctx ends, then drains and returns nil when every conversation has ended.
func (g *Gateway) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Say runs one turn.
func (g *Gateway) Say(ctx context.Context, say Say, sink func(Event)) (Result, error) {
	return Result{}, nil
}

// Interrupt ends the running turn of a session with a cause, and reports whether there was one.
func (g *Gateway) Interrupt(session string, cause error) bool { return false }

// Status gives a picture of the moment.
func (g *Gateway) Status() Status { return Status{} }

// Recover repairs the transcripts of turns whose process died.
func (g *Gateway) Recover(ctx context.Context) ([]Recovered, error) { return nil, nil }
