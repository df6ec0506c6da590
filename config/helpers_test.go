package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// homeWith makes a home that holds this configuration file; "" makes none.
func homeWith(t *testing.T, yaml string) string {
	t.Helper()
	home := t.TempDir()
	if yaml != "" {
		write(t, filepath.Join(home, "config.yaml"), yaml)
	}
	return home
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, home string, environ ...string) Loaded {
	t.Helper()
	l, err := Load(Request{Flags: map[string]string{"home": home}, Environ: environ})
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return l
}

func refusal(t *testing.T, home string, environ ...string) string {
	t.Helper()
	_, err := Load(Request{Flags: map[string]string{"home": home}, Environ: environ})
	if err == nil {
		t.Fatal("load accepted what it must refuse")
	}
	return err.Error()
}

func wantParts(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}
