package config

import (
	"cmp"
	"fmt"
	"time"
)

// Compression is when the older part of a conversation is folded into a summary, so that it goes on fitting the model's window.
type Compression struct {
	// Enabled may be false: a conversation that no longer fits then ends with an explanation.
	Enabled bool `yaml:"enabled" default:"true"`
	// Threshold is the fraction of the window at which it is done; windows below 512000 tokens are used to three quarters.
	Threshold float64 `yaml:"threshold" default:"0.5" min:"0.05" max:"0.95"`
	// ThresholdTokens is the latest point whatever the window; 0 is the fraction alone.
	ThresholdTokens int `yaml:"threshold_tokens" default:"256000"`
	// ModelThresholds are fractions for single models, by a part of the name or provider:part; the longest that fits counts.
	ModelThresholds map[string]float64 `yaml:"model_thresholds" min:"0.05" max:"0.95"`
	// TailMode is lean (a fortieth of the window stays word for word, 10000 to 25000 tokens) or legacy (target_ratio does).
	TailMode string `yaml:"tail_mode" default:"lean" oneof:"lean legacy"`
	// TargetRatio of the threshold stays word for word, with tail_mode legacy and at most with micro_compact.
	TargetRatio float64 `yaml:"target_ratio" default:"0.2" min:"0.1" max:"0.8"`
	// ProtectFirstN rows at the beginning and ProtectLastN at the end are never folded.
	ProtectFirstN int `yaml:"protect_first_n" default:"3" max:"1000"`
	ProtectLastN  int `yaml:"protect_last_n" default:"20" max:"1000"`
	// MinTailUserMessages of a person stay in the end, where they fit.
	MinTailUserMessages int `yaml:"min_tail_user_messages" default:"1" max:"100"`
	// TailAssistantMaxChars of each answer in that end stay in what the model is sent, once the rest is folded; 0 is all of it.
	TailAssistantMaxChars int `yaml:"tail_assistant_max_chars" default:"0" max:"1000000"`
	// MaxAttempts in one turn.
	MaxAttempts int `yaml:"max_attempts" default:"3" min:"1" max:"10"`
	// AbortOnSummaryFailure stops a conversation whose summary fails, until it is tried again; else it goes on with a poorer
	// summary that needs no model.
	AbortOnSummaryFailure bool `yaml:"abort_on_summary_failure" default:"false"`
	// ContextTimeout bounds one compaction as a whole.
	ContextTimeout time.Duration `yaml:"context_timeout" default:"15m" min:"1s"`
	// IdleCompactAfter folds a conversation that comes back after so long; 0 is off.
	IdleCompactAfter time.Duration `yaml:"idle_compact_after" default:"0s"`
	// HygieneHardMessageLimit of rows is the most before it is done whatever they weigh.
	HygieneHardMessageLimit int `yaml:"hygiene_hard_message_limit" default:"5000" min:"100"`
	// ProactivePruneTokens in use turn big old results into one line each, without a summary; 0 is off.
	ProactivePruneTokens int `yaml:"proactive_prune_tokens" default:"0"`
	// ProactivePruneMinResultChars is the least result for that, ProactivePruneMinReclaimTokens what must be won.
	ProactivePruneMinResultChars   int `yaml:"proactive_prune_min_result_chars" default:"8000" min:"200"`
	ProactivePruneMinReclaimTokens int `yaml:"proactive_prune_min_reclaim_tokens" default:"4096"`
	// MicroCompact folds the oldest exchange after each turn. Every time the server's prompt cache is lost, so it is for models
	// with small windows.
	MicroCompact bool `yaml:"micro_compact" default:"false"`
	// MicroCompactEveryNTurns is how often.
	MicroCompactEveryNTurns int `yaml:"micro_compact_every_n_turns" default:"1" min:"1" max:"1000"`
	// MicroCompactDefragThresholdTokens of rolling notes are written anew, shorter.
	MicroCompactDefragThresholdTokens int `yaml:"micro_compact_defrag_threshold_tokens" default:"2000" min:"500"`
}

// Auxiliary is the models of side jobs. What one of them leaves out is that of model; what micro_compaction leaves out is that of
// compression.
type Auxiliary struct {
	Compression     AuxModel `yaml:"compression"`
	MicroCompaction AuxModel `yaml:"micro_compaction"`
}

// AuxModel says who does a side job. All of it empty is the model of the conversation.
type AuxModel struct {
	// BaseURL of its server; empty is model.base_url.
	BaseURL string `yaml:"base_url" kind:"url"`
	// Name of the model; empty is model.name, or the first of another server.
	Name string `yaml:"name"`
	// APIKeyEnv and APIKeyFile say where its key is. The key of model goes to model's own server only.
	APIKeyEnv  string `yaml:"api_key_env" kind:"envname"`
	APIKeyFile string `yaml:"api_key_file" kind:"path"`
	// ContextLength in tokens; 0 asks the server.
	ContextLength int `yaml:"context_length" default:"0" max:"100000000"`
	// Timeout of one call; 0 is model.request_timeout.
	Timeout time.Duration `yaml:"timeout" default:"0s"`

	// APIKey is the key itself, found by Load.
	APIKey Secret `yaml:"-"`
}

// Own reports a side job with anything of its own: a bound alone counts, too.
func (a AuxModel) Own() bool { return a != AuxModel{} }

// settleAuxiliary finds the keys and fills in what is inherited.
func (l *loader) settleAuxiliary() {
	c, m := &l.Auxiliary.Compression, &l.Auxiliary.MicroCompaction
	l.settleAux("auxiliary.compression.", c)
	l.settleAux("auxiliary.micro_compaction.", m)
	ownServer := m.BaseURL != "" && m.BaseURL != c.BaseURL
	m.BaseURL, m.Name = cmp.Or(m.BaseURL, c.BaseURL), cmp.Or(m.Name, c.Name)
	m.ContextLength, m.Timeout = cmp.Or(m.ContextLength, c.ContextLength), cmp.Or(m.Timeout, c.Timeout)
	if !m.APIKey.Set() && !ownServer {
		m.APIKey, m.APIKeyEnv, m.APIKeyFile = c.APIKey, c.APIKeyEnv, c.APIKeyFile
	}
}

func (l *loader) settleAux(prefix string, a *AuxModel) {
	a.APIKeyFile = l.absolute(a.APIKeyFile)
	a.APIKey = l.modelKey(prefix, a.APIKeyEnv, a.APIKeyFile)
	if a.APIKey.Set() && a.BaseURL == "" && prefix == "auxiliary.compression." {
		l.Warnings = append(l.Warnings, fmt.Sprintf("%sapi_key is set without a base_url: it is sent to the server of model", prefix))
	}
}
