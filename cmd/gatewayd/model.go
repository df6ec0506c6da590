package main

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"gatewayd/config"
	"gatewayd/gateway/provider"
	"gatewayd/internal/problem"
)

// gatekeeper gives the gate of a provider key: the daemon's own gates, or those that another process of the home joins.
type gatekeeper interface {
	Gate(key string, limits provider.Limits) provider.Gate
}

// models makes the models of one process. They share its gates, and what the servers teach is kept in the home.
type models struct {
	loaded config.Loaded
	gates  gatekeeper // nil: nobody waits for anybody
	memory *provider.Memory
	log    *slog.Logger

	standing func() []provider.Model // the fallbacks, made once: whoever asks one of them learns for all

	mu    sync.Mutex
	named map[string]provider.Model
}

func newModels(loaded config.Loaded, gates gatekeeper, log *slog.Logger) *models {
	m := &models{loaded: loaded, gates: gates, memory: provider.NewMemory(loaded.Home, log), log: log, named: map[string]provider.Model{}}
	m.standing = sync.OnceValue(func() (list []provider.Model) {
		for _, f := range loaded.Model.Fallbacks {
			list = append(list, m.fallback(f))
		}
		return list
	})
	return m
}

// choose gives the model that answers, with those that stand in for it, and how it was chosen.
func (m *models) choose(ctx context.Context) (provider.Model, string) {
	if m.loaded.Model.Provider == "offline" {
		return provider.Offline(), "model.provider: offline"
	}
	model, how := m.discovered(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if name := model.Describe().Name; name != "" {
		m.named[name] = model // who asks for it by name gets this one
	}
	return model, how
}

func (m *models) discovered(ctx context.Context) (provider.Model, string) {
	first, how := provider.Discover(ctx, m.options())
	rest := m.standing()
	switch {
	case len(rest) == 0:
		return first, how
	case first.Describe().Offline:
		return provider.Chain(rest...), "model.fallbacks: " + how
	}
	return provider.Chain(append([]provider.Model{first}, rest...)...), how
}

// Named gives the model of that name: a fallback by its name, with the others behind it, else another model of the configured server. It is
// made once, so that what it learned of its server stays.
func (m *models) Named(name string) (provider.Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if model := m.named[name]; model != nil {
		return model, nil
	}
	model, err := m.makeNamed(name)
	if err == nil {
		m.named[name] = model
	}
	return model, err
}

func (m *models) makeNamed(name string) (provider.Model, error) {
	for i, f := range m.loaded.Model.Fallbacks {
		if f.Name == name {
			all := m.standing()
			return provider.Chain(slices.Concat(all[i:i+1], all[:i], all[i+1:])...), nil
		}
	}
	options := m.options()
	if options.BaseURL == "" {
		return nil, &problem.Error{
			Kind: problem.NotFound, Thing: "model " + name, What: "has no server", Fate: "nothing was changed", Remedy: "set model.base_url, or name one of model.fallbacks",
		}
	}
	options.Name, options.ContextLength = name, 0
	options.Origin = "chosen for the conversation"
	m.learned(&options)
	return provider.Chain(append([]provider.Model{provider.New(options)}, m.standing()...)...), nil
}

// options say how the configured server is asked.
func (m *models) options() provider.Options {
	c := m.loaded.Model
	options := m.common(c.APIKeyFile)
	options.BaseURL, options.API, options.Name, options.Key, options.ContextLength = c.BaseURL, c.API, c.Name, c.APIKey.Reveal(), c.ContextLength
	if !strings.HasPrefix(m.loaded.Origins["model.api_key"].Place, "/") {
		options.Refresh = nil // a key from a variable stays as it was when the process began
	}
	m.learned(&options)
	return options
}

func (m *models) fallback(f config.Fallback) provider.Model {
	options := m.common(f.APIKeyFile)
	options.BaseURL, options.API, options.Name, options.Key, options.ContextLength = f.BaseURL, f.API, f.Name, f.APIKey.Reveal(), f.ContextLength
	options.Origin = "a fallback"
	m.learned(&options)
	return provider.New(options)
}

// common is what all servers have in common.
func (m *models) common(keyFile string) provider.Options {
	c := m.loaded.Model
	options := provider.Options{
		Effort: c.ReasoningEffort, CacheTTL: c.CacheTTL,
		RequestTimeout: c.RequestTimeout, FirstToken: c.FirstTokenTimeout, Slots: c.Slots, Stall: c.StallTimeout, MaxRetries: c.MaxRetries, BreakerAfter: c.BreakerAfter, Log: m.log,
	}
	if m.loaded.Origins["model.first_token_timeout"].Source == config.FromDefault {
		options.FirstToken = 0 // the provider looks where the server is and how fast it reads
	}
	if c.BreakerAfter == 0 {
		options.BreakerAfter = -1
	}
	if keyFile != "" {
		options.Refresh = func() string { return config.ReadKeyFile(keyFile) }
	}
	return options
}

// learned adds what was learned of the server before, and the gate of its key.
func (m *models) learned(options *provider.Options) {
	if options.BaseURL != "" {
		options.Learned = m.memory.Of(options.BaseURL, options.Name)
		options.Remember = m.memory.Keep(options.BaseURL, options.Name)
	}
	if m.gates != nil {
		limits := provider.Limits{Concurrent: m.loaded.Model.MaxConcurrent, PerMinute: m.loaded.Model.RequestsPerMinute}
		options.Gate = m.gates.Gate(provider.GateKey(options.BaseURL, options.Key), limits)
	}
}
