package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/oklog/run"
)

// actor is one long-lived part of the daemon.
type actor struct {
	name string
	// run works until ctx is done and gives an error only when it could not go on.
	run func(ctx context.Context) error
	// outlasts: others need it, so it is told to stop only when every actor before it has ended.
	outlasts bool
}

// lineup turns actors into members of a run.Group. The group signals all of them in the order given and lets them
// end in any order; what keeps the order of ending is one done channel for each actor, closed when it and all
// before it have ended. That closing happens in a goroutine of its own, because an execute that waited for
// others would keep the group from seeing that this actor has returned.
func lineup(g *run.Group, log *slog.Logger, actors []actor) (ended *sync.WaitGroup) {
	ended = &sync.WaitGroup{}
	before := make(chan struct{})
	close(before)
	for _, a := range actors {
		done := make(chan struct{})
		m := &member{actor: a, log: log, stop: make(chan struct{}), before: before, done: done}
		ended.Add(1)
		go func() { <-done; ended.Done() }()
		g.Add(m.execute, m.interrupt)
		before = done
	}
	return ended
}

// member is an actor's place in the group.
type member struct {
	actor
	log          *slog.Logger
	stop         chan struct{}
	once         sync.Once
	before, done chan struct{}
}

func (m *member) execute() error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-m.stop
		if m.outlasts {
			<-m.before
		}
		cancel()
	}()
	err := m.run(ctx)
	go func() { <-m.before; close(m.done) }()
	if err != nil && !errors.Is(err, context.Canceled) {
		m.log.Error("actor ended", "actor", m.name, "error", err)
		return err
	}
	m.log.Debug("actor ended", "actor", m.name)
	return nil
}

// interrupt only signals; it may come before execute has begun, and more than once.
func (m *member) interrupt(error) { m.once.Do(func() { close(m.stop) }) }
