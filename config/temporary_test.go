package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestADirectoryThatTakesNoTemporaryFilesIsNamedAndTheHomeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(t.TempDir(), "gone")} {
		t.Setenv("TMPDIR", dir)
		t.Setenv(spillVariable, "")
		if _, err := Temporary(); err == nil || !strings.Contains(err.Error(), "TMPDIR "+dir) {
			t.Errorf("%s: %v", dir, err)
		}
		if home := t.TempDir(); !SpillInto(home) || os.Getenv(spillVariable) != home || SpillInto(t.TempDir()) {
			t.Errorf("%s: databases use %q", dir, os.Getenv(spillVariable))
		}
	}
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(spillVariable, "")
	if dir, err := Temporary(); err != nil || dir != os.TempDir() || SpillInto("/elsewhere") {
		t.Errorf("%s: %v", dir, err)
	}
}
