package config

import (
	"testing"
	"time"
)

func TestFractionsAreNumbersWithinTheirLimits(t *testing.T) {
	c := load(t, homeWith(t, "compression:\n  threshold: 0.6\n  target_ratio: 0.1\n  model_thresholds: {qwen: 0.7, \"openai:gpt-5\": 0.25}\n")).Compression
	if c.Threshold != 0.6 || c.TargetRatio != 0.1 || c.ModelThresholds["qwen"] != 0.7 || c.ModelThresholds["openai:gpt-5"] != 0.25 {
		t.Errorf("%+v", c)
	}
	for text, want := range map[string]string{
		"threshold: half":                ":2: compression.threshold must be a number such as 0.5",
		"threshold: 1.5":                 "compression.threshold must be at most 0.95",
		"target_ratio: 0.01":             "compression.target_ratio must be at least 0.1",
		"model_thresholds: {a: 7}":       "compression.model_thresholds must be at most 0.95",
		"model_thresholds: {a: much}":    `"a" must be a number`,
		"micro_compact_every_turn: true": "did you mean compression.micro_compact_every_n_turns?",
		"max_attempts: 11":               "compression.max_attempts must be at most 10",
		"tail_mode: fat":                 "must be one of lean, legacy",
	} {
		wantParts(t, refusal(t, homeWith(t, "compression:\n  "+text+"\n")), want)
	}
}

// What micro_compaction leaves out is that of compression, field by field; a key never goes to a server that it is not for.
func TestSideJobsInheritFieldByField(t *testing.T) {
	l := load(t, homeWith(t, "auxiliary:\n  compression: {base_url: \"http://one/v1\", name: big, api_key_env: KEY_ONE, timeout: 9m}\n"+
		"  micro_compaction: {name: small}\n"), "KEY_ONE=first")
	m := l.Auxiliary.MicroCompaction
	if m.Name != "small" || m.BaseURL != "http://one/v1" || m.APIKey.Reveal() != "first" || m.Timeout != 9*time.Minute {
		t.Errorf("%+v %s", m, m.APIKey.Reveal())
	}
	l = load(t, homeWith(t, "auxiliary:\n  compression: {base_url: \"http://one/v1\", api_key_env: KEY_ONE}\n"+
		"  micro_compaction: {base_url: \"http://two/v1\"}\n"), "KEY_ONE=first")
	if m = l.Auxiliary.MicroCompaction; m.APIKey.Set() {
		t.Errorf("the key of one server is meant for another: %+v", m)
	}
	if load(t, homeWith(t, "")).Auxiliary.Compression.Own() {
		t.Error("without settings there is a model of its own")
	}
}
