package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFallbacksKeepTheirOrderAndTheirKeys(t *testing.T) {
	home := homeWith(t, `model:
  base_url: https://one.example/v1
  max_concurrent: 2
  requests_per_minute: 60
  fallbacks:
    - base_url: https://api.anthropic.com/v1
      name: second
      api: anthropic
      api_key_file: second.key
    - base_url: http://127.0.0.1:11434/v1
      name: third
      api_key_env: THIRD_KEY
      context_length: 65536
`)
	if err := os.WriteFile(filepath.Join(home, "second.key"), []byte("sk-two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := load(t, home, "THIRD_KEY=sk-three")
	f := l.Model.Fallbacks
	if len(f) != 2 || f[0].Name != "second" || f[0].API != "anthropic" || f[0].APIKey.Reveal() != "sk-two" || f[1].APIKey.Reveal() != "sk-three" || f[1].API != "auto" || f[1].ContextLength != 65536 {
		t.Errorf("%+v", f)
	}
	if got := strings.Join(l.KeyVariables(), " "); got != "THIRD_KEY CREDENTIALS_DIRECTORY" {
		t.Errorf("variables of keys: %s", got)
	}
	shown := map[string]Row{}
	for _, row := range l.Rows() {
		if row.Source == "" || strings.Contains(row.Value, "sk-") {
			t.Errorf("%s: %+v", row.Key, row)
		}
		shown[row.Key] = row
	}
	if row := shown["model.fallbacks[1].name"]; row.Value != "third" || !strings.HasSuffix(row.Place, "config.yaml:11") {
		t.Errorf("shown: %+v", row)
	}
	if key := ReadKeyFile(f[0].APIKeyFile); key != "sk-two" || ReadKeyFile(home) != "" {
		t.Errorf("read anew: %q", key)
	}
}

func TestAModelSectionThatWouldSilentlyDoNothingIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"model:\n  timeout: 5s":                                           "did you mean model.request_timeout?",
		"model:\n  request_timeout_seconds: 5":                            "did you mean model.request_timeout?",
		"model:\n  stale_timeout_seconds: 5":                              "did you mean model.stall_timeout?",
		"model:\n  stream_timeout: 5s":                                    "did you mean model.stall_timeout?",
		"model:\n  first_token: 5s":                                       "did you mean model.first_token_timeout?",
		"model:\n  fallback_providers: []":                                "did you mean model.fallbacks?",
		"model:\n  api: antropic":                                         "did you mean anthropic?",
		"model:\n  fallbacks: {a: 1}":                                     "must be a list",
		"model:\n  fallbacks:\n    - name: x":                             "says no base_url",
		"model:\n  fallbacks:\n    - base_url: x":                         "must be a URL",
		"model:\n  fallbacks:\n    - base_url: http://x/v1\n      nam: y": "did you mean model.fallbacks[0].name?",
		"model:\n  fallbacks:\n    - http://x/v1":                         "must be a section",
		"model:\n  reasoning_effort: lots":                                "must be one of",
	} {
		_, err := Load(Request{Flags: map[string]string{"home": homeWith(t, text+"\n")}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "config.yaml:") {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}
