package hermeshome

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gatewayd/config"
	"gatewayd/internal/problem"
)

// trial is a home that exists for a moment, in which settings are tried before the real one is touched.
type trial struct {
	dir  string
	keys map[string]string
	list []candidate
}

// passing is where a trial is: in the home, but among the temporary files where the home must stay as it is.
func (m *move) passing() string {
	if m.DryRun {
		return os.TempDir()
	}
	return m.Home.Home
}

func newTrial(under string, k keyring) (*trial, error) {
	dir, err := os.MkdirTemp(under, "trial-")
	if err != nil {
		return nil, fmt.Errorf("try settings: %w", err)
	}
	return &trial{dir: dir, keys: maps.Clone(k.text)}, nil
}

func (t *trial) close() { _ = os.RemoveAll(t.dir) }

// admit says why a setting is refused beside those that were admitted, "" for one that is not. Values of keys do not matter here, so
// none is written.
func (t *trial) admit(c candidate) string {
	for name := range c.keys {
		t.keys[name] = ""
	}
	_, err := t.load(append(slices.Clone(t.list), c))
	if err == nil {
		t.list = append(t.list, c)
		return ""
	}
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return p.What
	}
	return "this gatewayd does not take it"
}

func (t *trial) load(list []candidate) (config.Loaded, error) {
	var env strings.Builder
	for name := range t.keys {
		fmt.Fprintf(&env, "%s=x\n", name)
	}
	err := errors.Join(
		os.WriteFile(filepath.Join(t.dir, ".env"), []byte(env.String()), 0o600),
		os.WriteFile(filepath.Join(t.dir, "config.yaml"), []byte(render(list)), 0o600),
	)
	if err != nil {
		return config.Loaded{}, err
	}
	return config.Load(config.Request{Flags: map[string]string{"home": t.dir}})
}

// loadedOf is what admitted settings come to.
func loadedOf(under string, list []candidate) (config.Loaded, error) {
	t, err := newTrial(under, keyring{text: map[string]string{}})
	if err != nil {
		return config.Loaded{}, err
	}
	defer t.close()
	for _, c := range list {
		for _, name := range slices.Concat(slices.Collect(maps.Keys(c.keys)), references(c.value)) {
			t.keys[name] = ""
		}
	}
	return t.load(list)
}
