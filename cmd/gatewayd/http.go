package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"gatewayd/config"
	"gatewayd/gateway/api"
	"gatewayd/gateway/provider"
	"gatewayd/kanban"
	"gatewayd/kanban/dispatch"
	"gatewayd/kanban/mcp"
	"gatewayd/sessiondb"
)

// makeAPI gives the HTTP API its handler and its server.
func (d *daemon) makeAPI(context.Context) error {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(dispatchMetrics{d.dispatcher}, turnMetrics{d.gateway}, houseMetrics{d}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	d.server = api.Server(api.New(api.Options{
		Chat: d.gateway, Sessions: d.store, Once: d.store, Commands: d.commands(), Store: d.store, Boards: boardDoor{d.root, d}, Dispatch: dispatchDoor{d.dispatcher}, Notices: noticeDoor{d},
		Model: d.describeModel, Checks: d.checks, Status: func(context.Context) any { return d.status() }, Shapes: answeredShapes, Insights: d.insights, Receipt: d.gateway.Receipt, Diagnose: d.dispatcher.Diagnose, Lanes: d.lanes,
		Stopping: d.apiStops, MCP: d.mcp(), RunToken: d.signer.Fence,
		Keys: d.keys, Addr: d.listener.Addr().String(), AllowedHosts: append(d.hosts, d.config.API.AllowedHosts...),
		AllowedOrigins: d.config.API.AllowedOrigins, MaxBody: d.config.API.MaxBodyBytes, MaxTurns: d.config.API.MaxConcurrentTurns, MaxStreams: d.config.API.MaxStreams, MaxStreamsPerKey: d.config.API.MaxStreamsPerKey,
		Page: d.page(), SystemPrompt: d.config.Agent.SystemPrompt, PID: os.Getpid(), Version: version, Started: d.started, Metrics: metrics, Log: d.log, Approvals: d.approvals, Responses: d.store, Runs: d.runs, Forget: d.forget, Settings: settingsDoor{d},
	}), slog.NewLogLogger(d.log.Handler(), slog.LevelDebug)) // what clients do wrong on the wire is theirs
	d.server.ConnContext = d.comesIn
	return nil
}

// forget removes what tools keep of a conversation that was deleted, and ends its commands.
func (d *daemon) forget(ctx context.Context, session string) error {
	return errors.Join(d.tools.DropSession(ctx, session), spillOf(d.config).Drop(session))
}

// answeredShapes are what the doors of this package answer, for the description of the API.
var answeredShapes = map[string]any{
	"Status": status{}, "Insights": insights{}, "Why": dispatch.Why{}, "DispatchReport": dispatch.Report{}, "Settings": []config.Row{}, "Reloaded": reloaded{},
}

// mcp serves the boards as tools, to workers by the tokens of their runs and to other agents by the API key.
func (d *daemon) mcp() http.Handler {
	desk := deskOf(d.config, boardDoor{d.root, d}, nil, "api")
	desk.Wake, desk.Secrets = d.dispatcher.Wake, d.secretsNow
	return mcp.Handler(mcp.Options{Desk: desk, Version: version, Run: api.RunOf})
}

// converse holds the conversations until they have drained.
func (d *daemon) converse(ctx context.Context) error {
	defer close(d.talked)
	return d.gateway.Run(ctx)
}

// checks are the lines of /health/detailed.
func (d *daemon) checks(context.Context) []api.Check {
	return append([]api.Check{d.checkState(), d.checkModel(), d.checkActors(), d.checkDispatcher(), d.checkNotifier()}, slices.Concat(d.checkVolumes(), d.checkServers(), d.checkBoards())...)
}

// checkState looks at flags and at what lies beside state.db; it does not wait for a store that is being opened anew.
func (d *daemon) checkState() api.Check {
	health := d.store.Health()
	c := api.Check{Name: "state.db", Status: "ok", Reason: health.Trouble()}
	switch {
	case health.State == sessiondb.StateQuarantined:
		c.Status = "failed"
	case c.Reason != "":
		c.Status = "degraded"
	}
	if c.Reason != "" && health.Remedy != "" {
		c.Reason += "; " + health.Remedy
	}
	return c
}

// actorsCheck is the line that tells of parts which give no sign of life: only a new start helps these.
const actorsCheck = "actors"

func (d *daemon) checkActors() api.Check {
	if silent := d.watchdog.Silent(); len(silent) > 0 {
		return api.Check{Name: actorsCheck, Status: "failed", Reason: "no sign of life from " + strings.Join(silent, ", ")}
	}
	return api.Check{Name: actorsCheck, Status: "ok"}
}

func (d *daemon) checkModel() api.Check {
	model := d.describeModel()
	if model.Offline {
		return api.Check{Name: "model", Status: "degraded", Reason: "the offline model answers; set model.base_url"}
	}
	check := api.Check{Name: "model", Status: "ok", Data: provider.StatsOf(d.model())}
	for _, s := range provider.StatsOf(d.model()) {
		if s.Open {
			check.Status, check.Reason = "degraded", "the breaker of "+s.Provider+" is "+s.Breaker
		}
	}
	return check
}

func (d *daemon) checkDispatcher() api.Check {
	s := d.dispatcher.Status()
	switch {
	case !d.config.Kanban.Dispatch:
		return api.Check{Name: "dispatcher", Status: "off", Reason: "kanban.dispatch is false"}
	case s.Outside != nil:
		return api.Check{Name: "dispatcher", Status: "degraded", Reason: s.Outside.Detail, Since: s.Outside.Since}
	case s.Stuck != nil && !s.Stuck.Kept:
		return api.Check{Name: "dispatcher", Status: "degraded", Reason: s.Stuck.String(), Since: &s.Stuck.Since, Data: s.Stuck}
	case s.Stuck != nil:
		return api.Check{Name: "dispatcher", Status: "ok", Reason: "cards wait for known reasons: " + s.Stuck.String(), Since: &s.Stuck.Since, Data: s.Stuck}
	}
	return api.Check{Name: "dispatcher", Status: "ok"}
}

// boardCheck begins the name of a board's line.
const boardCheck = "board "

func (d *daemon) checkBoards() []api.Check {
	var checks []api.Check
	for _, b := range d.dispatcher.Status().Boards {
		c := api.Check{Name: boardCheck + string(b.Slug), Status: "ok"}
		if b.Hold != nil && b.State != "paused" {
			c.Status, c.Reason, c.Since = "degraded", b.Hold.Detail, b.Hold.Since
		}
		checks = append(checks, c)
	}
	return checks
}

// boardDoor lets the API reach boards through the registry.
type boardDoor struct {
	*kanban.Root
	d *daemon
}

func (b boardDoor) Create(ctx context.Context, slug kanban.Slug, meta kanban.Meta) (kanban.Info, error) {
	info, err := b.Root.Create(slug, meta)
	if err != nil {
		return kanban.Info{}, err
	}
	ref, err := b.d.newBoards.Acquire(ctx, info.Path)
	if err != nil {
		return kanban.Info{}, err
	}
	ref.Release()
	b.d.dispatcher.Wake(slug)
	return b.Lookup(slug)
}

// Remove lets a board go before it leaves; who still has it open then has it closed under its hands.
func (b boardDoor) Remove(ctx context.Context, slug kanban.Slug, forGood bool) (kanban.Removed, error) {
	hands := kanban.Hands{
		Open: func(ctx context.Context, slug kanban.Slug) (*kanban.Board, func(), error) {
			return b.d.acquireBoard(ctx, b.DBPath(slug))
		},
		Close: func(ctx context.Context, dir string) error {
			b.d.dispatcher.LetGo(slug)
			b.d.notifier.LetGo(slug)
			return b.d.registry.CloseAllUnder(ctx, dir)
		},
	}
	defer b.d.dispatcher.TakeBack(slug)
	if forGood {
		return b.Root.Delete(ctx, slug, hands)
	}
	return b.Root.Archive(ctx, slug, hands)
}

// Acquire does not open a board that is disabled: the dispatcher says when its file may be looked at again.
func (b boardDoor) Acquire(ctx context.Context, slug kanban.Slug) (*kanban.Board, func(), error) {
	if err := b.d.dispatcher.Disabled(slug); err != nil {
		return nil, nil, err
	}
	return b.d.acquireBoard(ctx, b.DBPath(slug))
}

// dispatchDoor lets the API ask why.
type dispatchDoor struct{ *dispatch.Dispatcher }

func (w dispatchDoor) Now(ctx context.Context) (any, error) { return w.Dispatcher.Now(ctx) }

func (w dispatchDoor) Why(ctx context.Context, board kanban.Slug, task string) (any, error) {
	return w.Dispatcher.Why(ctx, board, task)
}
