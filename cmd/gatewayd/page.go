package main

import (
	"context"
	"net/http"

	"gatewayd/gateway/web"
	"gatewayd/kanban"
	"gatewayd/kanban/dispatch"
)

// page is what people with a browser see.
func (d *daemon) page() http.Handler {
	return web.New(web.Options{
		Boards: boardDoor{d.root, d}, Why: whyDoor{d.dispatcher}, Lanes: d.lanes, Diagnose: d.dispatcher.Diagnose, Version: version, Log: d.log,
		Sessions: d.store, Approvals: d.approvals, Status: func(context.Context) any { return d.status() }, Checks: d.checks, Turns: d.gateway.Status,
	})
}

// whyDoor lets the page ask why, in the dispatcher's own words.
type whyDoor struct{ d *dispatch.Dispatcher }

func (w whyDoor) Why(ctx context.Context, board kanban.Slug, task string) ([]web.Hold, error) {
	why, err := w.d.Why(ctx, board, task)
	holds := make([]web.Hold, 0, len(why.Holds))
	for _, h := range why.Holds {
		holds = append(holds, holdOf(h))
	}
	return holds, err
}

func (w whyDoor) Firsts(ctx context.Context, board kanban.Slug, tasks []string) (map[string]web.Hold, error) {
	firsts, err := w.d.Firsts(ctx, board, tasks)
	holds := make(map[string]web.Hold, len(firsts))
	for task, h := range firsts {
		holds[task] = holdOf(h)
	}
	return holds, err
}

func holdOf(h dispatch.Hold) web.Hold {
	return web.Hold{Reason: string(h.Reason), Detail: h.Detail, Since: h.Since, Until: h.Until, Remedy: h.Remedy}
}
