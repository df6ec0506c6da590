package main

import (
	"context"
	"log/slog"

	"gatewayd/config"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
)

// answering is who answers as the settings in force say: a reload replaces it as a whole.
type answering struct {
	*models
	model        provider.Model
	aux, rolling provider.Model // write summaries; nil: the model of the conversation
}

// chosen decides by some settings who answers. It asks the usual local ports only when nothing is configured.
func chosen(ctx context.Context, loaded config.Loaded, gates gatekeeper, log *slog.Logger) (a *answering, how string) {
	a = &answering{models: newModels(loaded, gates, log)}
	a.model, how = a.choose(ctx)
	a.aux, a.rolling = a.summarizers(a.model)
	return a, how
}

// model is the one that answers where a conversation has none of its own.
func (d *daemon) model() provider.Model { return d.answers.Load().model }

func (d *daemon) describeModel() provider.Description { return d.model().Describe() }

// named gives the model of that name.
func (d *daemon) named(name string) (provider.Model, error) { return d.answers.Load().Named(name) }

// tuningOf is what of the settings counts from the next message on, without who answers.
func tuningOf(loaded config.Loaded) gateway.Tuning {
	return gateway.Tuning{
		Terminal: tool.Mode(loaded.Tools.Terminal), Files: tool.Mode(loaded.Tools.Files), ToolsAllow: loaded.Tools.Allow,
		MaxIterations: loaded.Agent.MaxIterations, StallTimeout: loaded.Agent.TurnStallTimeout,
		Compaction: compactionOf(loaded), BatchTimeout: loaded.Agent.BatchTimeout, LoopHardStop: loaded.Agent.LoopHardStop,
	}
}

// tune adds who answers.
func (a *answering) tune(t gateway.Tuning) gateway.Tuning {
	t.Model, t.Models, t.Aux, t.Compaction.RollModel = a.model, a.Named, a.aux, a.rolling
	return t
}
