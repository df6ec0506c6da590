package main

import (
	"context"
	"errors"
	"fmt"

	"gatewayd/gateway"
	"gatewayd/gateway/api"
	"gatewayd/kanban"
	"gatewayd/kanban/notify"
	"gatewayd/sessiondb"
)

func (d *daemon) makeNotifier(context.Context) (err error) {
	c := d.config.Kanban.Notify
	d.targets = notify.NewTargets(c, d.config.Environ, d.config.Home, d.reaper, chats{d})
	d.notifier, err = notify.New(notify.Options{
		Root: d.root, Acquire: d.acquireBoard, Disabled: d.dispatcher.Disabled, Targets: d.targets, Off: !c.Enabled, Log: d.log,
	})
	if err != nil {
		return err
	}
	state, why := "on", fmt.Sprintf("webhooks: %d, commands: %d", len(c.Webhooks), len(c.Commands))
	if !c.Enabled {
		state, why = "off", "kanban.notify.enabled: "+from(d.config.Origins["kanban.notify.enabled"])
	}
	d.decide("notifier", state, why)
	return nil
}

// chats lets the notifier tell the sessions of this home.
type chats struct{ d *daemon }

func (c chats) Has(ctx context.Context, session string) (bool, error) {
	_, err := c.d.store.Session(ctx, session)
	if errors.Is(err, sessiondb.ErrSessionMissing) {
		return false, nil
	}
	return err == nil, err
}

func (c chats) Deliver(ctx context.Context, session, key, text string, wake bool) error {
	return c.d.gateway.Tell(ctx, gateway.Told{Session: session, UID: key, Text: text, Wake: wake})
}

// noticeDoor lets the API subscribe and test.
type noticeDoor struct{ d *daemon }

func (n noticeDoor) Check(ctx context.Context, target, address string) error {
	return n.d.targets.Check(ctx, target, address)
}

func (n noticeDoor) Test(ctx context.Context, board *kanban.Board, subscription int64) error {
	return n.d.notifier.Test(ctx, board, subscription)
}

func (d *daemon) checkNotifier() api.Check {
	s := d.notifier.Status()
	switch parked := s.Parked(); {
	case !s.Enabled:
		return api.Check{Name: "notifier", Status: "off", Reason: "kanban.notify.enabled is false"}
	case parked > 0:
		return api.Check{Name: "notifier", Status: "degraded", Reason: fmt.Sprintf("%d notifications are parked; see `gatewayd kanban notify list`", parked)}
	}
	return api.Check{Name: "notifier", Status: "ok"}
}
