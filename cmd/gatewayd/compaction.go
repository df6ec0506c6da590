package main

import (
	"cmp"

	"gatewayd/config"
	"gatewayd/gateway"
	"gatewayd/gateway/compact"
	"gatewayd/gateway/provider"
)

// summarizers are who writes the summaries, and the rolling ones; nil is the model of the conversation. main is that of the settings.
func (m *models) summarizers(main provider.Model) (aux, rolling provider.Model) {
	side := m.loaded.Auxiliary
	if side.MicroCompaction != side.Compression {
		rolling = m.side(side.MicroCompaction, main)
	}
	return m.side(side.Compression, main), rolling
}

// compactionOf says when conversations are folded.
func compactionOf(loaded config.Loaded) gateway.CompactionOptions {
	c := loaded.Compression
	return gateway.CompactionOptions{
		Off: !c.Enabled, Rules: rulesOf(c), Attempts: c.MaxAttempts, Strict: c.AbortOnSummaryFailure, Timeout: c.ContextTimeout,
		IdleAfter: c.IdleCompactAfter, HardRows: c.HygieneHardMessageLimit, Rolling: c.MicroCompact, RollEvery: c.MicroCompactEveryNTurns,
		Secrets: secretsOf(loaded),
	}
}

func rulesOf(c config.Compression) *compact.Rules {
	return &compact.Rules{
		Threshold: c.Threshold, ThresholdTokens: c.ThresholdTokens, ModelThresholds: c.ModelThresholds, TargetRatio: c.TargetRatio, Legacy: c.TailMode == "legacy",
		ProtectFirst: c.ProtectFirstN, ProtectLast: c.ProtectLastN, MinTailUser: c.MinTailUserMessages, TailAnswer: c.TailAssistantMaxChars,
		PruneTokens: c.ProactivePruneTokens, PruneMinChars: c.ProactivePruneMinResultChars, PruneMinReclaim: c.ProactivePruneMinReclaimTokens,
		DefragTokens: c.MicroCompactDefragThresholdTokens,
	}
}

// side gives the model of a side job; nil is the model of the conversation. What its settings leave out is the main model's, but for
// its key, which goes to the main model's own server only.
func (m *models) side(a config.AuxModel, main provider.Model) provider.Model {
	if !a.Own() || main.Describe().Offline && a.BaseURL == "" {
		return nil
	}
	options := m.common(a.APIKeyFile)
	options.BaseURL, options.Name, options.Key = a.BaseURL, a.Name, a.APIKey.Reveal()
	if a.BaseURL == "" {
		c, about := m.loaded.Model, main.Describe()
		if !a.APIKey.Set() {
			options = m.common(c.APIKeyFile)
			options.Key = c.APIKey.Reveal()
		}
		options.BaseURL, options.API, options.Name = cmp.Or(c.BaseURL, about.BaseURL), c.API, cmp.Or(a.Name, c.Name, about.Name)
	}
	options.ContextLength, options.RequestTimeout = a.ContextLength, cmp.Or(a.Timeout, options.RequestTimeout)
	options.Origin = "auxiliary"
	m.learned(&options)
	return provider.New(options)
}
