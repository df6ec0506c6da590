package main

import (
	"context"
	"slices"
	"strings"

	"gatewayd/config"
	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/kanban/dispatch"
	"gatewayd/kanban/worker"
)

// reloaded is what a reading of the configuration came to.
type reloaded struct {
	Path     string          `json:"path"`
	Changed  []config.Change `json:"changed"` // what counts now, each from its moment on
	Restart  []config.Change `json:"restart"` // what counts from the next start on
	Warnings []string        `json:"warnings"`
}

// reload reads the configuration again and takes what may change while the daemon runs. What is wrong in it is refused as a
// whole: the settings in force stay.
func (d *daemon) reload(ctx context.Context) (reloaded, error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	if err := d.notify.Reloading(); err != nil {
		d.log.Debug("service manager was not told", "error", err)
	}
	defer func() { _ = d.notify.Ready() }()
	later, err := d.read()
	if err == nil && later.Empty && !d.live.Load().Empty {
		err = &problem.Error{Kind: problem.Config, Thing: later.Path, What: "is empty, as a file is that is being written", Remedy: "to go back to the defaults remove it, or write a comment into it"}
	}
	d.tellRefused(err)
	if err != nil {
		return reloaded{}, &problem.Error{
			Kind: problem.Config, What: "the configuration was not taken", Fate: "the settings in force stay as they are",
			Remedy: "mend it and reload again; `gatewayd config check` says whether it would be taken", Err: err,
		}
	}
	inForce := d.live.Load()
	out := reloaded{Path: later.Path, Changed: []config.Change{}, Restart: []config.Change{}, Warnings: append([]string{}, later.Warnings...)}
	for _, change := range inForce.Changes(later) {
		if change.Live == "" {
			out.Restart = append(out.Restart, change)
		} else {
			out.Changed = append(out.Changed, change)
		}
	}
	taken := inForce.Taking(later)
	if err := d.take(ctx, taken, out.Changed); err != nil {
		return reloaded{}, err
	}
	d.live.Store(&taken)
	d.decideOff(taken.Config)
	return out, nil
}

// take hands each part what changed for it. A part whose settings are the same is left alone, with all that it has learned.
func (d *daemon) take(ctx context.Context, taken config.Loaded, changes []config.Change) error {
	changed := func(prefixes ...string) bool {
		return slices.ContainsFunc(changes, func(c config.Change) bool {
			return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(c.Key, p) })
		})
	}
	if changed("kanban.") {
		lanes, err := worker.NewLanes(taken.Kanban, taken.KeyVariables()...)
		if err != nil {
			return err
		}
		d.dispatcher.Tune(dispatch.Tuning{Kanban: taken.Kanban, Lanes: lanes})
	}
	d.keepSecret(taken)
	if changed("model.", "auxiliary.") {
		answers, how := chosen(ctx, taken, d.gates, d.log)
		d.answers.Store(answers)
		d.decideModel(answers.model, how)
	}
	if changed("model.", "auxiliary.", "compression.", "agent.", "tools.") {
		d.gateway.Tune(d.answers.Load().tune(tuningOf(taken)))
		d.decideWindow()
		d.decide("terminal tool", taken.Tools.Terminal, from(taken.Origins["tools.terminal"]))
	}
	if changed("log.level") {
		setLevel(d.level, taken.Log.Level)
	}
	return nil
}

// settingsDoor lets the API show and reload the settings. Who reloads through it is answered; the log says it, too.
type settingsDoor struct{ d *daemon }

func (s settingsDoor) InForce() any { return s.d.live.Load().Rows() }

func (s settingsDoor) Reload(ctx context.Context) (any, error) {
	out, err := s.d.reload(ctx)
	if err == nil {
		s.d.tell(out)
	}
	return out, err
}

// reloadAsked is a reload for which nobody waits: the log says what came of it.
func (d *daemon) reloadAsked(ctx context.Context) {
	if out, err := d.reload(ctx); err == nil {
		d.tell(out)
	}
}

// tellRefused says what is wrong with the configuration when that is something else than at the reading before, and when it is mended.
// A service that is reloaded every minute with the same broken file says it once. The caller holds reloading.
func (d *daemon) tellRefused(err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	switch before := d.refused; {
	case now == before && !mutation.On("broken-file-is-told-each-time"):
	case err != nil:
		d.log.Error("configuration not taken", "error", err, "fate", "the settings in force stay as they are")
	default:
		d.log.Info("configuration is mended")
	}
	d.refused = now
}

func (d *daemon) tell(out reloaded) {
	for _, warning := range out.Warnings {
		d.log.Warn(warning)
	}
	for _, c := range out.Changed {
		d.log.Info("setting changed", "key", c.Key, "from", c.From, "to", c.To, "counts", c.Live)
	}
	for _, c := range out.Restart {
		d.log.Warn("setting changed in the file only", "key", c.Key, "in_force", c.From, "file", c.To, "counts", "from the next start on")
	}
	if len(out.Changed)+len(out.Restart) == 0 {
		d.log.Info("configuration read again: nothing has changed", "path", out.Path)
	}
}
