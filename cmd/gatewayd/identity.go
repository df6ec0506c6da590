package main

import (
	"context"
	"errors"

	"gatewayd/config"
	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/kanban"
)

// workerFence is the run that this process's environment says it works for, or nil outside a worker. The environment only
// says so: a shell that a worker left behind has it too. The board is asked whether it is true.
func (h house) workerFence(board kanban.Slug) *kanban.Fence {
	if h.Worker == nil {
		return nil
	}
	return &kanban.Fence{Board: board, Task: h.Worker.Task, Run: kanban.RunID(h.Worker.Run), Lock: h.Worker.Lock}
}

// held gives a worker the board as it may use it: each write asks the fence first, and takes secrets out.
func (h house) held(b *kanban.Board) *kanban.Board {
	fence := h.workerFence(b.Slug())
	if fence == nil {
		return b
	}
	b = b.Redacting(secretsOf(h.Loaded)...)
	if mutation.On("command-line-writes-without-fence") {
		return b
	}
	return b.As(*fence)
}

// secretsOf are the values that nobody may store in a board, whatever they look like.
func secretsOf(loaded config.Loaded) []string {
	secrets := loaded.Secrets()
	if key, err := config.ReadAPIKey(loaded.Home); err == nil {
		secrets = append(secrets, key.Reveal())
	}
	return secrets
}

// named is the house as it is for a worker, whose name is its run's lane and comes from the board. A worker whose run is over has
// its card for a name: it may read, and the fence refuses what it writes.
func (h house) named(ctx context.Context, b *kanban.Board) house {
	if fence := h.workerFence(b.Slug()); fence != nil {
		if run, err := b.CurrentRun(ctx, *fence); err == nil {
			h.name = run.Worker().Name
		}
	}
	return h
}

// prove refuses to go on as a worker whose run is not the current one.
func (h house) prove(ctx context.Context, b *kanban.Board) error {
	fence := h.workerFence(b.Slug())
	if fence == nil || mutation.On("inherited-run-is-believed") {
		return nil
	}
	_, err := b.CurrentRun(ctx, *fence)
	return h.disowned(err)
}

// disowned adds to the fence's refusal what a person does who has a worker's environment by accident.
func (h house) disowned(err error) error {
	p, ok := errors.AsType[*problem.Error](err)
	if !ok || h.Worker == nil || !errors.Is(err, kanban.ErrStaleRun) {
		return err
	}
	said := *p
	said.Remedy += "; a person whose shell came from a worker unsets GATEWAYD_KANBAN_TASK first"
	return &said
}
