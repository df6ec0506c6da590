package worker

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/kanban"
)

func TestTokensOfRunsOutliveARestartAndAnUpgrade(t *testing.T) {
	home := t.TempDir()
	now := time.Now().Unix()
	f := kanban.Fence{Board: "web", Task: "t_1", Run: 7, Started: now - 60}
	before := NewSigner("the old api key").Token(f)
	first, err := KeepSigner(home, "the old api key")
	if err != nil {
		t.Fatal(err)
	}
	again, err := KeepSigner(home, "another key by now")
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"of before the upgrade": before, "of before the restart": first.Token(f)} {
		if got, err := again.Fence(token); err != nil || got != f {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	later := f
	later.Started = now + 60
	for name, token := range map[string]string{
		"forged with the old key": NewSigner("the old api key").Token(later), "forged with a later key": NewSigner("another key by now").Token(f),
	} {
		if _, err := again.Fence(token); !problem.Is(err, problem.Denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if info, err := os.Stat(filepath.Join(home, signerName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestASpoiltSecretOfRunsIsNotReplaced(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, signerName)
	for _, text := range []string{"", "{}", `{"key":"c2hvcnQ="}`, "no JSON"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := KeepSigner(home, ""); !problem.Is(err, problem.Config) {
			t.Errorf("%q: %v", text, err)
		}
		if left, _ := os.ReadFile(path); string(left) != text {
			t.Errorf("%q became %q", text, left)
		}
	}
}
