package gateway

import (
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
)

// Tuning is the part of Options that may change while conversations run: who answers, what tools may do, when a conversation is
// folded, and the bounds of a turn. Each field means what it means in Options.
type Tuning struct {
	Model         provider.Model
	Models        func(name string) (provider.Model, error)
	Aux           provider.Model
	Compaction    CompactionOptions
	Terminal      tool.Mode
	Files         tool.Mode
	ToolsAllow    []string
	MaxIterations int
	StallTimeout  time.Duration
	BatchTimeout  time.Duration
	LoopHardStop  bool
}

// Tuning gives the tunable part of the options.
func (o Options) Tuning() Tuning {
	return Tuning{
		Model: o.Model, Models: o.Models, Aux: o.Aux, Compaction: o.Compaction, Terminal: o.Terminal, Files: o.Files, ToolsAllow: o.ToolsAllow,
		MaxIterations: o.MaxIterations, StallTimeout: o.StallTimeout, BatchTimeout: o.BatchTimeout, LoopHardStop: o.LoopHardStop,
	}
}

// With gives the options with another tuning.
func (o Options) With(t Tuning) Options {
	o.Model, o.Models, o.Aux, o.Compaction, o.Terminal, o.Files, o.ToolsAllow = t.Model, t.Models, t.Aux, t.Compaction, t.Terminal, t.Files, t.ToolsAllow
	o.MaxIterations, o.StallTimeout, o.BatchTimeout, o.LoopHardStop = t.MaxIterations, t.StallTimeout, t.BatchTimeout, t.LoopHardStop
	return o
}

func (t Tuning) withDefaults() *Tuning {
	t.Compaction = t.Compaction.withDefaults()
	orDefault(&t.MaxIterations, DefaultIterations)
	orDefault(&t.StallTimeout, DefaultStall)
	orDefault(&t.BatchTimeout, DefaultBatch)
	return &t
}

// Tune takes new settings, which count from the next message on: a turn that runs keeps what it began with, so that one turn is of
// one mind. Zero values mean what they mean in Options. It never blocks.
func (g *Gateway) Tune(t Tuning) { g.tuning.Store(t.withDefaults()) }

// tuned is what counts now. Whoever looks twice keeps the pointer.
func (g *Gateway) tuned() *Tuning { return g.tuning.Load() }
