package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/config"
	"gatewayd/gateway/provider"
	"gatewayd/internal/fakellm"
)

func loadedModels(t *testing.T, home, yaml string, gates gatekeeper) *models {
	t.Helper()
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := config.Load(config.Request{Flags: map[string]string{"home": home}})
	if err != nil {
		t.Fatal(err)
	}
	return newModels(loaded, gates, slog.New(slog.DiscardHandler))
}

func askModel(t *testing.T, model provider.Model) string {
	t.Helper()
	answer, err := model.Complete(t.Context(), provider.Request{Messages: []provider.Message{{Role: "user", Content: "x"}}}, nil)
	if err != nil {
		return err.Error()
	}
	return answer.Text
}

// What a fallback learned in one conversation it knows in all, under whatever name it is asked for.
func TestFallbacksAnswerInTheirOrderAndAreOneForAll(t *testing.T) {
	down := fakellm.Start(fakellm.Options{Each: func(fakellm.Request) fakellm.Response { return fakellm.Error{Status: 402, Message: "no money"} }})
	up := fakellm.Start(fakellm.Options{Keys: []string{"two"}, Each: func(r fakellm.Request) fakellm.Response {
		return fakellm.Text{Text: fmt.Sprint(r.JSON()["model"], " ", filepath.Base(r.Path))}
	}})
	t.Cleanup(down.Close)
	t.Cleanup(up.Close)
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "two.key"), []byte("two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := loadedModels(t, home, fmt.Sprintf(`model:
  base_url: %s
  name: first
  fallbacks:
    - {base_url: %q, name: second, api: anthropic, api_key_file: two.key, context_length: 9000}
    - {base_url: %q, name: third, api_key_file: two.key}
`, down.URL(), up.URL(), up.URL()), provider.NewGates(home, nil))
	model, how := m.choose(t.Context())
	d := model.Describe()
	if d.Name != "first" || len(d.Fallbacks) != 2 || !strings.Contains(how, "configured") || !strings.Contains(d.Timeouts, "a server nearby") {
		t.Errorf("%s: %+v", how, d)
	}
	if got := askModel(t, model); got != "second messages" {
		t.Errorf("the chain answered %q", got)
	}
	for name, want := range map[string]string{"first": "second messages", "second": "second messages", "third": "third completions", "other": "second messages"} {
		named, err := m.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := askModel(t, named); got != want {
			t.Errorf("%s: %q", name, got)
		}
		if again, _ := m.Named(name); again != named {
			t.Errorf("%s is made twice", name)
		}
	}
	stats := provider.StatsOf(model)
	if len(stats) != 3 || stats[1].Calls != 4 || stats[0].Failed[provider.Billing] != 2 || stats[0].Gate.Key == stats[1].Gate.Key || stats[1].Gate.Key != stats[2].Gate.Key {
		t.Errorf("%+v", stats)
	}
}

func TestAKeyFileThatChangesIsReadAnew(t *testing.T) {
	server := fakellm.Start(fakellm.Options{Keys: []string{"new"}, Each: func(fakellm.Request) fakellm.Response { return fakellm.Text{Text: "ok"} }})
	t.Cleanup(server.Close)
	home := t.TempDir()
	key := filepath.Join(home, "model.key")
	if err := os.WriteFile(key, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	model, _ := loadedModels(t, home, "model: {base_url: "+server.URL()+", name: m, api_key_file: model.key}\n", nil).choose(t.Context())
	if got := askModel(t, model); !strings.Contains(got, "(auth)") {
		t.Errorf("with the old key: %s", got)
	}
	if err := os.WriteFile(key, []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := askModel(t, model); got != "ok" {
		t.Errorf("with the new key: %s", got)
	}
}
