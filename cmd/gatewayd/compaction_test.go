package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"gatewayd/config"
	"gatewayd/gateway/provider"
	"gatewayd/internal/fakellm"
)

// A side job asks its own model where it has one, with a key that is meant for that server.
func TestASideJobAsksItsOwnModel(t *testing.T) {
	main, other := fakellm.Start(fakellm.Options{Keys: []string{"main-key"}, Each: func(fakellm.Request) fakellm.Response { return fakellm.Text{Text: "main"} }}), fakellm.New(t, fakellm.Text{Text: "other"})
	t.Cleanup(main.Close)
	for name, c := range map[string]struct {
		yaml, key, answer string
		none              bool
	}{
		"none":              {"", "", "", true},
		"a name":            {"auxiliary: {compression: {name: small}}\n", "main-key", "main", false},
		"a bound alone":     {"auxiliary: {compression: {timeout: 3s}}\n", "main-key", "main", false},
		"a server":          {"auxiliary: {compression: {base_url: \"" + other.URL() + "\", name: small}}\n", "", "other", false},
		"micro has its own": {"auxiliary: {micro_compaction: {base_url: \"" + other.URL() + "\", name: small}}\n", "", "", true},
	} {
		home := t.TempDir()
		text := "model: {base_url: \"" + main.URL() + "\", name: big}\n" + c.yaml
		if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		loaded, err := config.Load(config.Request{Flags: map[string]string{"home": home}, Environ: []string{"GATEWAYD_MODEL_API_KEY=main-key"}})
		if err != nil {
			t.Fatal(err)
		}
		m := newModels(loaded, nil, slog.New(slog.DiscardHandler))
		chosen, _ := m.choose(t.Context())
		aux, rolling := m.summarizers(chosen)
		if (aux == nil) != c.none || (rolling != nil) != (name == "micro has its own") {
			t.Errorf("%s: %v %v", name, aux, rolling)
		}
		if aux == nil {
			continue
		}
		if want := map[string]string{"a bound alone": "big"}[name]; want != "" && aux.Describe().Name != want {
			t.Errorf("%s: %q is asked", name, aux.Describe().Name)
		}
		answer, err := aux.Complete(t.Context(), provider.Request{Messages: []provider.Message{{Role: "user", Content: "x"}}}, nil)
		if err != nil || answer.Text != c.answer {
			t.Errorf("%s: %q, %v", name, answer.Text, err)
		}
	}
	if r := other.Requests(); len(r) != 1 || r[0].Key != "" {
		t.Errorf("the other server was asked %d times, with the key %q", len(r), r[0].Key)
	}
}
