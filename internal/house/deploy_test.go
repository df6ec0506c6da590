package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The README and the script of checks must not drift from what they name.
func TestTheScriptOfChecksRunsTheReadmesCommands(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(top, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(top, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(script), "go run ./cmd/gatewayd demo") || !strings.Contains(string(readme), "go run ./cmd/gatewayd demo") {
		t.Error("the demo is not run as the README says")
	}
	if !regexp.MustCompile(`tests -timeout .*\./\.\.\.`).Match(script) || !strings.Contains(string(readme), "go test ./...") {
		t.Error("the tests are not run as the README says")
	}
}
