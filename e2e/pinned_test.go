package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var buildPinned = sync.OnceValues(func() ([]byte, error) {
	build := exec.Command("go", "build", "-tags", buildTags, "-ldflags", "-s -w -X gatewayd/internal/sqlite.versionPin=3.50.4", "-o", pinnedPath(), "../cmd/gatewayd")
	return build.CombinedOutput()
})

func pinnedPath() string { return filepath.Join(scratch, "gatewayd-pinned") }

// pinnedProgram is the program as it is with a release of SQLite that must not enter WAL.
func pinnedProgram(t *testing.T) string {
	t.Helper()
	if out, err := buildPinned(); err != nil {
		t.Fatalf("build the pinned program: %v\n%s", err, out)
	}
	if _, err := os.Stat(pinnedPath()); err != nil {
		t.Fatal(err)
	}
	return pinnedPath()
}
